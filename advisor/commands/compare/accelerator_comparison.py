"""Two accelerators compared: every figure of their records, and its ratio."""

from collections.abc import Callable, Sequence

from advisor.catalog import accelerators
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB, GIGA, KILO, TERA
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import MISSING, digits, show_in


def compare_accelerators(first: str, second: str) -> Answer:
    """Return two accelerators next to each other: every figure that both or one of them has, and their ratio.

    Raises: UnknownNameError: no accelerator is called so.
    """
    chosen = [accelerators.get(name) for name in (first, second)]
    one, other = (each.record for each in chosen)
    rows = [
        (name, values[0], values[1])
        for name, values in _figures(one, other)
        if values[0] is not None or values[1] is not None
    ]
    ratio = _named_ratio(rows, "memory bandwidth, GB/s")
    peak = _named_ratio(rows, "bf16, TFLOP/s")
    headline = f"{one.id} against {other.id}: {ratio} the memory bandwidth, {peak} the dense bf16 rate"
    return Answer(
        result={
            "first": one.id,
            "second": other.id,
            "figures": [
                {
                    "figure": name,
                    "first": a,
                    "second": b,
                    "ratio": a / b if isinstance(a, float) and isinstance(b, float) and b else None,
                }
                for name, a, b in rows
            ],
        },
        inputs={"first": one.id, "second": other.id},
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(
                columns(f"figure | {one.id}> | {other.id}> | ratio>"),
                tuple((name, _cell(a), _cell(b), _ratio(a, b)) for name, a, b in rows),
            ),
            Paragraph(
                "Dense rates with FP32 accumulation. `advisor catalog show ID` has the source of each figure."
            ),
        ),
        records="figures",
        notes=tuple(each.note for each in chosen if each.note),
    )


Cell = float | str | None
Figure = Callable[[Accelerator], Cell]


def _figures(one: Accelerator, other: Accelerator) -> Sequence[tuple[str, tuple[Cell, Cell]]]:
    """Return the figures of two accelerators by name with unit."""
    formats = tuple(dict.fromkeys((*one.peak_flop_per_s, *other.peak_flop_per_s)))

    def both(name: str, of: Figure) -> tuple[str, tuple[Cell, Cell]]:
        return name, (of(one), of(other))

    def divide(name: str, factor: float) -> Figure:
        def of(record: Accelerator) -> float | None:
            value = getattr(record, name)
            return None if value is None else value / factor

        return of

    def peak(dtype: str) -> Figure:
        return lambda r: r.peak_flop_per_s[dtype] / TERA if dtype in r.peak_flop_per_s else None

    def ridge(dtype: str) -> Figure:
        return lambda r: (
            r.peak_flop_per_s[dtype] / r.bandwidth_bytes_per_s
            if dtype in r.peak_flop_per_s and r.bandwidth_bytes_per_s
            else None
        )

    def per_watt(dtype: str) -> Figure:
        return lambda r: (
            r.peak_flop_per_s[dtype] / TERA / r.tdp_w if dtype in r.peak_flop_per_s and r.tdp_w else None
        )

    return [
        both("architecture", lambda r: r.architecture),
        both("released", lambda r: r.released or None),
        both("memory, GB", divide("memory_bytes", GB)),
        both("memory type", lambda r: r.memory_type or None),
        both("memory bandwidth, GB/s", divide("bandwidth_bytes_per_s", GB)),
        *(both(f"{dtype}, TFLOP/s", peak(dtype)) for dtype in formats),
        *(
            both(f"ridge {dtype}, flop/byte", ridge(dtype))
            for dtype in formats
            if dtype in ("bf16", "fp8", "fp4")
        ),
        both("SMs, units or cores", lambda r: None if r.num_sms is None else float(r.num_sms)),
        both("clock, GHz", divide("clock_hz", GIGA)),
        both("L2, MB", divide("l2_bytes", GB / KILO)),
        both("link", lambda r: r.scale_up.kind if r.scale_up else None),
        both("link one way, GB/s", lambda r: r.scale_up.bytes_per_s / GB if r.scale_up else None),
        both("accelerators on the link", lambda r: float(r.scale_up_domain)),
        both("power, W", divide("tdp_w", 1.0)),
        both("bf16 per watt, TFLOP/s/W", per_watt("bf16")),
    ]


def _cell(value: Cell) -> str:
    if value is None:
        return MISSING
    return value if isinstance(value, str) else show_in(value, 1.0)


def _ratio(a: Cell, b: Cell) -> str:
    if isinstance(a, float | int) and isinstance(b, float | int) and b:
        return f"{digits(a / b)} x"
    return ""


def _named_ratio(rows: Sequence[tuple[str, Cell, Cell]], name: str) -> str:
    found = next((_ratio(a, b) for row, a, b in rows if row == name), "")
    return found or "an unknown multiple of"
