"""SI numbers for people: three significant digits, a fitting unit, an interval, a glyph of the basis."""

import math
from typing import Final, Protocol

from advisor.catalog import units
from advisor.catalog.units import usd_words
from advisor.simulator.quantity import Basis, Quantity

Ladder = tuple[tuple[float, str], ...]
"""Factors to SI with their symbols, ascending."""

TIME: Final[Ladder] = (
    (units.MICROSECOND_S, "µs"),
    (units.MILLISECOND_S, "ms"),
    (1.0, "s"),
    (units.MINUTE_S, "min"),
    (units.HOUR_S, "h"),
    (units.DAY_S, "days"),
)
SIZE: Final[Ladder] = ((1.0, "B"), (units.KB, "KB"), (units.MB, "MB"), (units.GB, "GB"), (units.TB, "TB"))
BINARY_SIZE: Final[Ladder] = ((1.0, "B"), (units.KIB, "KiB"), (units.MIB, "MiB"), (units.GIB, "GiB"))
RATE: Final[Ladder] = ((units.MB, "MB/s"), (units.GB, "GB/s"), (units.TB, "TB/s"))
COMPUTE: Final[Ladder] = ((units.TERA, "TFLOP/s"),)
POWER: Final[Ladder] = ((1.0, "W"), (units.KILO, "kW"), (units.MEGA, "MW"))
ENERGY: Final[Ladder] = ((1.0 / units.KILO, "mJ"), (1.0, "J"), (units.KILO, "kJ"))
COUNT: Final[Ladder] = ((1.0, ""), (units.MILLION, "M"), (units.GIGA, "B"), (units.TERA, "T"))
TOKEN_RATE: Final[Ladder] = ((1.0, "tokens/s"),)
REQUEST_RATE: Final[Ladder] = ((1.0, "requests/s"),)
JOULES_PER_TOKEN: Final[Ladder] = ((1.0, "J per token"),)
PLAIN: Final[Ladder] = ((1.0, ""),)

GLYPHS: Final[dict[Basis, str]] = {"measured here": "✓", "calibrated": "≈", "modelled": "·", "assumed": "?"}
LEGEND: Final = (
    "Ranges are 80 % intervals; ✓ measured on this machine, ≈ calibrated on published measurements, "
    "· modelled from the data sheet, ? assumed."
)
MISSING: Final = "-"


def digits(value: float, significant: int = 3) -> str:
    """Return a number with `significant` digits, thousands separated, never in exponents."""
    if value == 0:
        return "0"
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    whole = text.split(".")[0]
    return whole if float(text.replace(",", "")).is_integer() else text


def rung(value: float, ladder: Ladder) -> tuple[float, str]:
    """Return the largest unit in which the value is at least 1 when rounded to three digits, else the smallest unit."""
    fitting = [step for step in ladder if abs(value) >= 0.9995 * step[0]]
    return fitting[-1] if fitting else ladder[0]


def show(value: float | None, ladder: Ladder = PLAIN) -> str:
    """Return a number with its unit; a dash for None."""
    if value is None:
        return MISSING
    factor, unit = rung(value, ladder)
    return f"{digits(value / factor)} {unit}".rstrip()


def show_in(value: float | None, factor: float) -> str:
    """Return a number in the unit that the column's header names; a dash for None."""
    return MISSING if value is None else digits(value / factor)


def usd(value: float | None) -> str:
    """Return an amount in dollars: cents below 100, whole dollars above, two digits below ten cents."""
    if value is None:
        return MISSING
    if abs(value) < 0.1:
        return f"${digits(value, 2)}"
    return usd_words(value)


_LEAST_FRACTION = 1e-6
"""Fraction below which a percentage is printed as less than it: its zeros say nothing."""


def percent(fraction: float | None) -> str:
    if fraction is not None and 0.0 < fraction < _LEAST_FRACTION:
        return f"< {digits(100 * _LEAST_FRACTION)} %"
    return MISSING if fraction is None else f"{digits(100 * fraction)} %"


class LaidOut(Protocol):
    """Any record with the degrees of parallelism of a replica."""

    @property
    def tensor_parallel(self) -> int: ...
    @property
    def pipeline_parallel(self) -> int: ...
    @property
    def data_parallel(self) -> int: ...
    @property
    def expert_parallel(self) -> int: ...


def degree_words(**degrees: int) -> str:
    """Return the degrees above one, short: `TP4 PP2`."""
    return " ".join(f"{name}{degree}" for name, degree in degrees.items() if degree > 1)


def layout_words(laid: LaidOut, accelerator: str, num_replicas: int) -> str:
    """Return a deployment in words: `4 x h100-sxm (TP4)`, `40 x h100-sxm = 5 x (TP8)`, `3 x l40s = 3 replicas`."""
    tp = laid.tensor_parallel
    pp = laid.pipeline_parallel
    dp = laid.data_parallel
    ep = laid.expert_parallel
    inner = degree_words(TP=tp, PP=pp, DP=dp, EP=ep)
    total = f"{num_replicas * tp * pp * dp} x {accelerator}"
    if num_replicas == 1:
        return f"{total} ({inner})" if inner else total
    return f"{total} = {num_replicas} x ({inner})" if inner else f"{total} = {num_replicas} replicas"


_WRITTEN: Final = {"kv": "KV", "kw": "kW", "kwh": "kWh", "pue": "PUE", "usd": "USD"}


def words_of(name: str) -> str:
    """Return the name of a field as words: `electricity_usd_per_kwh` as `electricity USD per kWh`."""
    return " ".join(_WRITTEN.get(word, word) for word in name.split("_"))


def term_words(*terms: str) -> str:
    """Return terms of rent as `--term` takes them: `on-demand, reserved-1y`."""
    return ", ".join(terms).replace("_", "-")


def runs_words(engine: str, weight_dtype: str) -> str:
    """Return engine and weight format, short: `trt-llm fp8`."""
    return f"{'trt-llm' if engine == 'tensorrt-llm' else engine} {weight_dtype}"


class StatedPrice(Protocol):
    """Any record of a provider's price."""

    @property
    def source_words(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def tenancy(self) -> str: ...
    @property
    def age_days(self) -> int | None: ...


def price_words(price: StatedPrice) -> str:
    """Return provider with place and term, kind of price unless it is a list price, tenancy, and age: `gcp (us-east4,
    spot), 119d`."""
    whose = {"unknown": "others' hosts", "shared": "shared"}.get(price.tenancy, "")
    age = "undated" if price.age_days is None else f"{price.age_days}d"
    kind = "" if price.kind == "list" else words_of(price.kind)
    return ", ".join(filter(None, (price.source_words, kind, whose, age)))


class Bought(Protocol):
    """Any record of bought accelerators of one kind; the replicas may need fewer."""

    @property
    def accelerator(self) -> str: ...
    @property
    def num_accelerators(self) -> int: ...


class Replicated(LaidOut, Protocol):
    """Any record of replicas of one layout."""

    @property
    def num_replicas(self) -> int: ...


def bought_words(bought: Bought, laid: Replicated) -> str:
    """Return a purchase in words: `29 x b200-sxm`, `4 x TP2 h100-sxm`, or `8 x h100-sxm as 2 x TP2` or `8 x h100-sxm
    as 3 replicas` if some idle."""
    tp = laid.tensor_parallel
    pp = laid.pipeline_parallel
    dp = laid.data_parallel
    inner = degree_words(TP=tp, PP=pp, DP=dp)
    whole = f"{bought.num_accelerators} x {bought.accelerator}"
    if laid.num_replicas * tp * pp * dp < bought.num_accelerators:
        replicas = "1 replica" if laid.num_replicas == 1 else f"{laid.num_replicas} replicas"
        return f"{whole} as {f'{laid.num_replicas} x {inner}' if inner else replicas}"
    if not inner:
        return whole
    return f"{laid.num_replicas} x {inner} {bought.accelerator}"


_CLOSE_DIGITS: Final = 3
"""Digits of the ends of an interval that lie within a tenth of each other; ends that agree in them are one number."""


def show_quantity(quantity: Quantity | None, ladder: Ladder = PLAIN) -> str:
    """Return a prediction with its interval in one unit and the glyph of its basis, `4.95 ms (4.4-5.5) ≈`, without an
    interval whose ends show as one number; a dash for None."""
    if quantity is None:
        return MISSING
    factor, unit = rung(quantity.value, ladder)
    ends = tuple(digits(end / factor, _CLOSE_DIGITS) for end in (quantity.low, quantity.high))
    span = f"({range_words(quantity.low / factor, quantity.high / factor)})" if ends[0] != ends[1] else ""
    return " ".join(filter(None, (digits(quantity.value / factor), unit, span, GLYPHS[quantity.basis])))


def range_words(low: float, high: float) -> str:
    """Return an interval with two digits, or with three if its ends lie within a tenth of each other."""
    significant = 2 if high > 1.1 * low else _CLOSE_DIGITS
    return f"{digits(low, significant)}-{digits(high, significant)}"


def usd_range(quantity: Quantity) -> str:
    """Return dollars with their interval after them, `$0.18 0.15-0.24`; certain dollars have none."""
    span = f" {range_words(quantity.low, quantity.high)}" if quantity.low < quantity.high else ""
    return f"{usd(quantity.value)}{span}"


def usd_quantity(quantity: Quantity) -> str:
    """Return dollars with their interval: `$0.42 (0.37-0.49) ≈`."""
    span = range_words(quantity.low, quantity.high)
    return f"${digits(quantity.value, 2)} ({span}) {GLYPHS[quantity.basis]}"


_LADDERS: Final[dict[str, Ladder]] = {
    "bytes/s": RATE,
    "bytes/s of the bus": RATE,
    "flop/s": COMPUTE,
    "s": TIME,
    "bytes": BINARY_SIZE,
    "bytes in use": BINARY_SIZE,
    "W": POWER,
}


def show_unit(value: float | str | None, unit: str) -> str:
    """Return a probe's figure in its own unit; a dash for None."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    if unit.startswith("fraction"):
        return percent(value)
    ladder = _LADDERS.get(unit)
    return show(value, ladder) if ladder else f"{digits(value)} {unit}".rstrip()


def client_words(number: int | str) -> str:
    """Return a number of clients in words: `1 client`, `40 clients`."""
    return f"{number} client{'' if str(number) == '1' else 's'}"
