"""Powers of ten and of two and sizes of numbers, which no other module defines.

Everything inside the program is SI: seconds, bytes, flop, watts, dollars. Files and reports use the field's customary
units; they are converted here, once when read and once when shown.
"""

import re
from decimal import Decimal
from typing import Final

KILO: Final = 1e3
MEGA: Final = 1e6
GIGA: Final = 1e9
TERA: Final = 1e12

KB: Final = 1e3
MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
KIB: Final = 1024.0
MIB: Final = 1024.0**2
GIB: Final = 1024.0**3

MILLISECOND_S: Final = 1e-3
MICROSECOND_S: Final = 1e-6
NANOSECOND_S: Final = 1e-9
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0

PICOSECONDS_PER_S: Final = 1_000_000_000_000
MILLION: Final = 1_000_000
CENTS_PER_USD: Final = 100
JOULES_PER_KWH: Final = 3.6e6
HOURS_PER_DAY: Final = 24.0
DAYS_PER_MONTH: Final = 365.25 / 12.0
HOURS_PER_MONTH: Final = HOURS_PER_DAY * DAYS_PER_MONTH
BITS_PER_BYTE: Final = 8.0
BF16_BYTES: Final = 2.0
FP32_BYTES: Final = 4.0


def with_decimal_point(digits: str) -> str:
    """Return a number with a point before its decimals and nothing between its thousands: `2.450,00` is `2450.00`.

    A comma alone divides thousands if three digits follow it, and a point alone divides decimals, unless there are
    several.
    """
    plain = re.sub(r"(?<=\d)['’\s](?=\d{3}(?!\d))", "", digits)
    comma = plain.rfind(",")
    point = plain.rfind(".")
    if comma >= 0 and point >= 0:
        divider, decimal = (",", ".") if point > comma else (".", ",")
        plain = plain.replace(divider, "").replace(decimal, ".")
    elif plain.count(".") > 1 and re.fullmatch(r"\d{1,3}(?:\.\d{3})+", plain):
        plain = plain.replace(".", "")
    return re.sub(r",(?=\d{3}(?:\D|$))", "", plain).replace(",", ".")


TYPED_DIGITS: Final = 6
"""Digits of a limit in words: as many as people type."""


def plain_number(value: float, significant: int = 3) -> str:
    """Return a number with at most `significant` digits, thousands separated, never in exponents."""
    return f"{Decimal(f'{value:.{significant}g}'):,f}"


def usd_words(usd: float) -> str:
    """Return an amount in dollars, with cents below a hundred: nothing that costs something is $0."""
    return f"${usd:,.2f}" if abs(usd) < 100.0 else f"${usd:,.0f}"


def time_words(seconds: float, significant: int = 3) -> str:
    """Return a latency as people write it, e.g. 1.2 s or 35 ms."""
    if seconds >= 1.0:
        return f"{plain_number(seconds, significant)} s"
    return f"{plain_number(seconds / MILLISECOND_S, significant)} ms"


def duration_words(days: float) -> str:
    """Return days as people say them: hours below one, minutes below an hour, seconds below a minute."""
    hours = days * DAY_S / HOUR_S
    if hours >= HOURS_PER_DAY:
        return "1 day" if days == 1.0 else f"{plain_number(days)} days"
    minutes = hours * HOUR_S / MINUTE_S
    if minutes < 1.0:
        return f"{plain_number(minutes * MINUTE_S, 2)} s"
    return f"{plain_number(hours, 2)} h" if hours >= 1.0 else f"{plain_number(minutes, 2)} min"
