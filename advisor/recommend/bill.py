"""What is paid for a deployment, the same for every command: machines, storage, egress, commitments; what nobody states
is unknown, never nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.catalog.prices import commitment_usd, committed_hours
from advisor.catalog.schema import Price
from advisor.catalog.units import GB, HOUR_S, HOURS_PER_MONTH
from advisor.recommend.offers import OWN
from advisor.recommend.ownership import Tco
from advisor.recommend.scenario import Beside

ELECTRICITY = "electricity"


@dataclass(frozen=True, slots=True)
class MonthlyBill:
    """A month of a deployment, or the whole of a job."""

    usd_per_hour: float
    """Of every part that is known."""
    usd_per_month: float
    parts_usd_per_month: Mapping[str, float | None]
    """rent; or electricity, capital and upkeep of what is owned; storage; egress. None: unknown."""
    unknown: Mapping[str, str]
    """Why a part is."""
    commitment_usd: float | None
    """Owed whole under the term, used or not; None where the term's length is not stated."""
    total_usd: float | None = None
    """Of a job that ends: hours used or committed, storage for as long, egress in proportion."""


def bill_of(price: Price, usd_per_hour: float, beside: Beside, *, job_s: float | None = None) -> MonthlyBill:
    """The bill of machines that cost so much per hour on an offer, of a job that runs so long where there is one.

    Source: definition; storage and egress at the seller's price, own machines at that of their electricity.
    """
    name = ELECTRICITY if price.provider == OWN else "rent"
    owed = commitment_usd(price)
    skus = usd_per_hour / price.usd_per_hour
    extra, unknown = _extra_usd_per_month(price, beside)
    total = None
    if job_s is not None:
        known = sum(filter(None, extra.values())) / HOURS_PER_MONTH
        total = job_usd(price.term, usd_per_hour, job_s) + known * job_s / HOUR_S
    parts = {name: usd_per_hour * HOURS_PER_MONTH, **extra}
    return _bill(parts, unknown, None if owed is None else owed * skus, total)


def owned_bill(cost: Tco, price: Price, beside: Beside) -> MonthlyBill:
    """The bill of machines that are bought: what they lose in value and interest, their energy, and the rest of it."""
    upkeep = cost.running_usd_per_month - cost.energy_usd_per_month
    machines = {
        "capital": cost.usd_per_month - cost.running_usd_per_month,
        ELECTRICITY: cost.energy_usd_per_month,
        "upkeep": upkeep,
    }
    extra, unknown = _extra_usd_per_month(price, beside)
    return _bill({**machines, **extra}, unknown, 0.0)


def job_usd(term: str, usd_per_hour: float, duration_s: float) -> float:
    """What the machines of a job cost [USD]: the hours that they are used, a commitment whole."""
    return usd_per_hour * max(duration_s / HOUR_S, committed_hours(term))


def extra_usd_per_hour(price: Price, beside: Beside) -> float:
    """Storage and egress, as far as their prices are known [USD/h]."""
    return sum(filter(None, _extra_usd_per_month(price, beside)[0].values())) / HOURS_PER_MONTH


def smallest_budget(usd_per_hour: float, count: int, accelerator: str, provider: str) -> str:
    """The budget that buys the cheapest deployment, as it is typed, up to the next cent."""
    where = "of your own" if provider == OWN else f"from {provider}"
    cents = math.ceil(100.0 * usd_per_hour - 1e-6) / 100.0
    return f"--budget {cents:.2f}/h: {count} x {accelerator} {where} is enough"


def bill_words(bill: MonthlyBill, which: str = "Option 1") -> str:
    """A month's bill in a sentence.

    >>> bill_words(MonthlyBill(2.0, 1461.0, {"rent": 1461.0, "egress": None}, {"egress": "aws states no price"}, 0.0))
    'Option 1 costs $1,461 a month for rent; egress is unknown (aws states no price).'
    """
    known = {name: usd for name, usd in bill.parts_usd_per_month.items() if usd is not None}
    parts = f" for {next(iter(known))}"
    if len(known) > 1:
        parts = ": " + ", ".join(f"{usd_words(usd)} {name}" for name, usd in known.items())
    return _sentence(bill, f"{which} costs {usd_words(bill.usd_per_month)} a month{parts}")


def usd_words(usd: float) -> str:
    """Dollars with cents below a hundred: nothing that costs something is $0. Source: own definition."""
    return f"${usd:,.2f}" if abs(usd) < 100.0 else f"${usd:,.0f}"


def left_out(bill: MonthlyBill) -> str:
    """What was asked for and has no price here, so that the sum leaves it out, as the end of a phrase."""
    names = [name for name, why in bill.unknown.items() if not why.startswith("--")]
    return f", {' and '.join(names)} unknown" if names else ""


def job_words(bill: MonthlyBill, which: str = "Option 1") -> str:
    """The bill of a whole job in a sentence."""
    known = [name for name, usd in bill.parts_usd_per_month.items() if usd is not None]
    return _sentence(
        bill, f"{which} costs {usd_words(bill.total_usd or 0.0)} in all for {' and '.join(known)}"
    )


def _sentence(bill: MonthlyBill, first: str) -> str:
    """It, with what is owed whole and what nobody knows."""
    reasons: dict[str, list[str]] = {}
    for name, why in bill.unknown.items():
        reasons.setdefault("" if why.startswith("--") else why, []).append(name)
    unknown = [
        f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} unknown "
        f"({why or ', '.join(bill.unknown[name] for name in names)})"
        for why, names in reasons.items()
    ]
    owed = [f"{usd_words(bill.commitment_usd)} are owed whole, used or not"] if bill.commitment_usd else []
    return "; ".join((first, *owed, *unknown)) + "."


def _bill(
    parts: Mapping[str, float | None],
    unknown: Mapping[str, str],
    commitment: float | None,
    total: float | None = None,
) -> MonthlyBill:
    known = sum(usd for usd in parts.values() if usd is not None)
    return MonthlyBill(known / HOURS_PER_MONTH, known, parts, unknown, commitment, total)


def _extra_usd_per_month(price: Price, beside: Beside) -> tuple[dict[str, float | None], dict[str, str]]:
    """Storage and egress of a month, None where amount or price is not known; and which of the two is not."""
    seller = "your own site" if price.provider == OWN else price.provider
    rates = {
        "storage": (beside.storage_bytes, price.storage_usd_per_gb_hour, HOURS_PER_MONTH),
        "egress": (beside.egress_bytes_per_month, price.egress_usd_per_gb, 1.0),
    }
    found: dict[str, float | None] = {}
    unknown = {}
    for name, (size, rate, times) in rates.items():
        found[name] = None
        if size is None:
            unknown[name] = f"--{name}-tb"
        elif size == 0.0 or rate is not None:
            found[name] = size / GB * (rate or 0.0) * times
        else:
            unknown[name] = f"{seller} states no price"
    return found, unknown
