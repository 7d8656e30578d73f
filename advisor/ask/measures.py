"""Amounts as people type them (80GB, 50ms, 1T, 2.5M) turned into SI numbers."""

import datetime
import math
import re
from collections.abc import Mapping
from typing import Final

from advisor.catalog import units
from advisor.catalog.errors import AdvisorError

_AMOUNT: Final = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ]*)\s*")

_BYTES: Final = {
    "b": 1.0,
    "kb": units.KB,
    "mb": units.MB,
    "gb": units.GB,
    "tb": units.TB,
    "kib": units.KIB,
    "mib": units.MIB,
    "gib": units.GIB,
}
_SECONDS: Final = {
    "us": units.MICROSECOND_S,
    "µs": units.MICROSECOND_S,
    "ms": units.MILLISECOND_S,
    "s": 1.0,
    "min": units.MINUTE_S,
    "h": units.HOUR_S,
    "d": units.DAY_S,
    "week": 7.0 * units.DAY_S,
    "month": units.HOURS_PER_MONTH * units.HOUR_S,
}
_WATTS: Final = {"w": 1.0, "kw": units.KILO}
_COUNT: Final = {
    "": 1.0,
    "k": units.KILO,
    "m": units.MEGA,
    "b": units.GIGA,
    "g": units.GIGA,
    "t": units.TERA,
    "ki": units.KIB,
    "mi": units.MIB,
}
_PERIOD: Final = re.compile(
    r"(?P<number>.*?)\s*(?:/|\bper\b|\ban?\b)\s*(?P<period>[A-Za-z]*)\s*", re.IGNORECASE
)
_PERIOD_H: Final = {
    "s": 1.0 / units.HOUR_S,
    "min": units.MINUTE_S / units.HOUR_S,
    "h": 1.0,
    "d": units.HOURS_PER_DAY,
    "week": units.HOURS_PER_DAY * 7.0,
    "month": units.HOURS_PER_MONTH,
    "year": units.HOURS_PER_DAY * 365.0,
}
_SPELT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("w", "wk", "weeks"), "week"),
    **dict.fromkeys(("mo", "mth", "months"), "month"),
    **dict.fromkeys(("y", "yr", "years"), "year"),
    **dict.fromkeys(("thousand", "tsd"), "k"),
    **dict.fromkeys(("million", "millions", "mio", "mn", "mln"), "m"),
    **dict.fromkeys(("billion", "billions", "bn", "mrd"), "b"),
    **dict.fromkeys(("trillion", "trillions", "tn"), "t"),
}
"""Units by other words for them. Source of mio, mrd and tsd: CLDR, compact decimals."""
_GROUPED: Final = re.compile(
    r"\d{1,3}(?:([,\u0020\u00a0\u202f'\u2019])\d{3}(?:\1\d{3})*(?=\D|$)|(?:\.\d{3}){2,}(?![\d.]))"
)
"""Digits in groups of three; a single comma or point elsewhere may be meant as a decimal sign."""
_EITHER: Final = re.compile(r"([1-9]\d{0,2})\.(\d{3})")
"""Thousands in one language and a fraction in another, where a whole number is asked."""
_DOLLARS: Final = re.compile(r"\s*(?:US)?\$\s*|\s*\b(?:USD|US\s*dollars?|dollars?)\b\s*", re.IGNORECASE)


MOST_BYTES = 1e18
MOST_SECONDS = 1e10
MOST_COUNT = 1e24
"""An exabyte, 317 years, 1e24 things: what is beyond was mistyped."""
MOST: Final = 1e15


def parse_bytes(text: str, option: str) -> float:
    """Return an amount of memory [bytes], written with its unit: 80GB, 64MiB. An option that names bytes needs none.

    Raises: AdvisorError: no number, not positive, or a unit that is none.
    """
    factors = {"": 1.0, **_BYTES} if option.endswith("bytes") else _BYTES
    return _parse(text, option, factors, "80GB or 64MiB", MOST_BYTES)


_USUAL_SECONDS: Final[Mapping[str, str]] = {
    "--deadline": "30d",
    "--restart": "10min",
    "--interval": "10min",
    "--checkpoint": "30s",
    "--turn-gap": "30s",
    "--limit": "30s",
    "--ramp": "30s",
    "--reward-time": "2s",
    "--latency-p99": "500ms",
}
"""Durations that errors name as examples, by option: those of a job are no fractions of a second."""


def parse_seconds(text: str, option: str) -> float:
    """Return a duration [s], written with its unit: 50ms, 1.5s, 30d, 3 days, 1h30min.

    Raises: AdvisorError: no number, not positive, or a unit that is none.
    """
    parts = re.findall(r"\d+(?:\.\d+)?\s*[A-Za-zµ]+", text)
    if len(parts) > 1 and "".join(parts) == text.replace(" ", ""):
        return sum(parse_seconds(re.sub(r"m$", "min", part), option) for part in parts)
    example = _USUAL_SECONDS.get(option, "50ms, 1.5s or 30d")
    return _parse(text, option, _SECONDS, example, MOST_SECONDS)


def parse_count(text: str, option: str) -> float:
    """Return a number with an optional k, M, B or T: 128k, 70B, 1.4T, 1,000 or 2 million.

    Raises: AdvisorError: no number, not positive, a suffix that is none, or one point that may stand between thousands.
    """
    if either := _EITHER.fullmatch(text.strip()):
        raise AdvisorError(
            f"{option} {text}: {either[1]},{either[2]} or {float(text):g}?",
            why="a point stands between thousands in some languages, and before a fraction in others",
            fix=f"{option} {either[1]}{either[2]}, or {option} {float(text):g}",
        )
    return _parse(without_groups(text), option, _COUNT, "4096, 128k or 1.4T", MOST_COUNT)


def without_groups(text: str) -> str:
    """Return a text whose first number has no signs between thousands."""
    found = _GROUPED.match(text.strip())
    return text if found is None else re.sub(r"\D", "", found[0]) + text.strip()[found.end() :]


MOST_TOKENS: Final = 10_000_000
"""Tokens of one prompt or one output."""


def parse_tokens(text: str, option: str) -> int:
    """Return a whole number of tokens with an optional k or M: 4096, 128k.

    Raises: AdvisorError: as `parse_count`, or not from 1 to 10,000,000.
    """
    tokens = round(parse_count(text, option))
    if not 1 <= tokens <= MOST_TOKENS:
        raise AdvisorError(
            f"{option} {text} is out of range",
            why=f"a length is from 1 to {MOST_TOKENS:,} tokens",
            fix=f"e.g. {option} 128k",
        )
    return tokens


MOST_CLIENTS: Final = 100_000


def parse_clients(text: str) -> int:
    """Return the number of clients of a closed loop.

    Raises: AdvisorError: no whole number, or out of range.
    """
    plain = without_groups(text)
    if not plain.isdecimal() or not 1 <= int(plain) <= MOST_CLIENTS:
        what = f"--concurrency {text}: not a number of clients"
        raise AdvisorError(what, fix=f"a whole number from 1 to {MOST_CLIENTS:,}, e.g. --concurrency 64")
    return int(plain)


def parse_watts(text: str, option: str) -> float:
    """Return power [W], written with its unit: 1500W or 1.5kW.

    Raises: AdvisorError: no number, not positive, or a unit that is none.
    """
    return _parse(text, option, _WATTS, "1500W or 1.5kW", MOST, "a power")


def positive(value: float, option: str, *, text: str = "", example: str = "1", most: float = MOST) -> float:
    """Return the value itself if it is a positive number within a limit.

    Raises: AdvisorError: it is not.
    """
    if 0.0 < value <= most:
        return value
    too_large = most < value < math.inf
    raise AdvisorError(
        f"{option} {text or f'{value:g}'} is out of range",
        why=f"at most {most:g} can be asked" if too_large else "it must be positive and finite",
        fix=f"e.g. {option} {example}",
    )


def _parse(
    text: str, option: str, factors: Mapping[str, float], example: str, most: float, what: str = "an amount"
) -> float:
    first = re.split(r",| or ", example)[0]
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise AdvisorError(f"{option} {text}: not {what}", fix=f"write a number and a unit, e.g. {example}")
    number, unit = match.groups()
    factor = factors.get(unit.lower(), factors.get(_SPELT.get(unit.lower(), unit)))
    if factor is None:
        known = ", ".join(name for name in factors if name)
        raise AdvisorError(
            f"{option} {text}: {f'{unit!r} is not a unit of it' if unit else 'the unit is missing'}",
            why=f"units are {known}",
            fix=f"e.g. {option} {first}",
        )
    return positive(float(number) * factor, option, text=text, example=first, most=most)


MOST_RATE_PER_S: Final = 1e6
"""Requests: more than all services of the world together are asked."""


def parse_rate(text: str, option: str = "--rate") -> float:
    """Return requests per second [1/s], written 10, 10/s, 600/min, 1e4/h or 2M/day.

    Raises: AdvisorError: no number, not positive and finite, or a period that is none.
    """
    number, hours = _per_hours(text, "s")
    try:
        amount = float(number)  # also 0, inf and nan, which are out of range
    except ValueError:
        try:
            amount = _parse(without_groups(number), option, _COUNT, "10", MOST_COUNT)
        except AdvisorError:
            hours = None
    if hours is None:
        raise AdvisorError(
            f"{option} {text}: not a rate", fix=f"requests per second, e.g. {option} 10, or 600/min"
        )
    per_second = amount / (hours * units.HOUR_S)
    return positive(per_second, option, text=text, example="10", most=MOST_RATE_PER_S)


def _per_hours(text: str, without: str = "") -> tuple[str, float | None]:
    """Return the number and the hours of a rate, of the period `without` if it names none; None if it is no period."""
    found = _PERIOD.fullmatch(text.strip())
    period = found["period"].lower() if found else without
    return found["number"] if found else text.strip(), _PERIOD_H.get(_SPELT.get(period, period))


def parse_budget(text: str) -> float:
    """Return dollars per hour, written 13.7/h, 330/day, 10000/month, 10k/month or $3,000 per month.

    Raises: AdvisorError: no number, not positive, no period or another one.
    """
    found = _PERIOD.fullmatch(text.strip())
    number = found["number"] if found else text
    usd = parse_usd(number, text, example="13.7/h, or 10k/month")
    if found is None:
        raise AdvisorError(
            f"--budget {text}: dollars of what time?",
            why=f"{number} an hour are {usd * units.HOURS_PER_MONTH:,.0f} a month: both are possible",
            fix=f"--budget {number}/h or --budget {number}/month",
            hint=f"a machine to buy is planned by: advisor build --budget {usd:.0f}",
        )
    _, hours = _per_hours(text)
    if hours is None:
        raise AdvisorError(
            f"--budget {text}: {found['period']!r} is no period",
            fix="--budget 13.7/h, 330/day or 10000/month",
        )
    return usd / hours


def parse_usd(number: str, text: str = "", *, example: str, option: str = "--budget") -> float:
    """Return dollars of an option, in all, with an optional k or M.

    Raises: AdvisorError: no number, or not positive and finite.
    """
    plain = without_groups(_DOLLARS.sub("", number))
    match = _AMOUNT.fullmatch(plain)
    unit = match.group(2).lower() if match else ""
    factor = _COUNT.get(_SPELT.get(unit, unit))
    if match is None or factor is None:
        raise AdvisorError(
            f"{option} {text or number}: not a sum of dollars",
            why="prices are in US dollars, and no rates of exchange are kept",
            fix=f"the sum in dollars, e.g. {option} {example}",
        )
    return positive(float(match.group(1)) * factor, option, text=text or number, example=example)


def parse_day(text: str, option: str) -> datetime.date:
    """Return a calendar day written as YYYY-MM-DD.

    Raises: AdvisorError: it is written otherwise or does not exist.
    """
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise AdvisorError(
            f"{option} {text} is not a date",
            why="a date is written YYYY-MM-DD and must exist",
            fix=f"e.g. {option} 2026-11-20",
        ) from None


_UNIFORM_LOW: Final = 0.8
"""Shortest over nominal length of uniform lengths that say none: --random-range-ratio of the usual benchmark."""
_MOST_SIGMA: Final = 5.0


def parse_length_dist(text: str | None) -> tuple[str, float]:
    """Return kind and number of a distribution of lengths: fixed, uniform:LOW or lognormal:SIGMA; empty for None.

    Raises: AdvisorError: the text is no distribution.
    """
    if text is None:
        return "", 0.0
    kind, _, detail = text.partition(":")
    try:
        number = float(detail) if detail else None
    except ValueError:
        number = math.nan
    if kind == "fixed" and number is None:
        return kind, 0.0
    if kind == "uniform" and (number is None or 0 <= number <= 1):
        return kind, _UNIFORM_LOW if number is None else number
    if kind == "lognormal" and number is not None:
        sigma = positive(number, "--length-dist lognormal", text=text)
        if sigma <= _MOST_SIGMA:
            return kind, sigma
    raise AdvisorError(
        f"--length-dist {text}: not a distribution",
        why="fixed, uniform:LOW with LOW from 0 to 1, or lognormal:SIGMA with SIGMA up to 5",
        fix="e.g. --length-dist uniform:0.8",
    )
