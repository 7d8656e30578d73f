"""Fits how prices move with age: catalog/data/price_age.toml from pairs of readings of one offer in the bundled rows.

    python tools/fit_price_age.py

ln(later / earlier) of consecutive dated readings of one seller's product, region and term is taken as normal with mean
drift * days and variance start^2 + spread^2 * days: a random walk that begins at what a figure of that kind is off at
once. The drift is the market's, of all pairs; start and spread are by class: a seller's list read today is
right but for LEAST_START, and nothing moves less than lists.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.files import DATA_DIR
from advisor.catalog.prices import bundled_prices, offer_of
from advisor.catalog.schema import Price

FloatArray = NDArray[np.float64]
Pair = tuple[str, float, float]
"""Seller, days, change of the logarithm."""
LEAST_START = 0.01
"""Least spread of a price read today: rounding, and charges that a page leaves out."""
LEAST_PAIRS = 10
FILE = DATA_DIR / "price_age.toml"


def pairs() -> dict[str, list[Pair]]:
    """Changes by class of price."""
    offers: dict[tuple[object, ...], list[Price]] = defaultdict(list)
    for price in bundled_prices():
        if price.is_dated:
            offers[offer_of(price)].append(price)
    found: dict[str, list[Pair]] = defaultdict(list)
    for readings in offers.values():
        readings.sort(key=lambda price: price.observed_on)
        for old, new in itertools.pairwise(readings):
            days = (new.observed_on - old.observed_on).days
            change = math.log(new.usd_per_hour / old.usd_per_hour)
            for name in classes(old, new):
                found[name].append((old.provider, days, change))
    return found


def classes(old: Price, new: Price) -> tuple[str, ...]:
    if old.term == "spot":
        return ("spot",)
    if old.price_kind == new.price_kind == "list":
        return ("list",)
    if "tracker" in (old.price_kind, new.price_kind):
        return ("tracker",)
    return ("marketplace",) if old.price_kind.startswith("marketplace") else ()


def weights(changes: Sequence[Pair]) -> FloatArray:
    """Every seller counts alike, however many of its products moved on one day."""
    number = Counter(seller for seller, _, _ in changes)
    each = np.array([1.0 / number[seller] for seller, _, _ in changes])
    return each * len(changes) / each.sum()


def drift_of(changes: Sequence[Pair], start: float, spread: float) -> float:
    """Drift per day by weighted least squares."""
    days, change = columns(changes)
    weight = weights(changes) / (start**2 + spread**2 * days)
    return float(np.sum(weight * days * change) / np.sum(weight * days**2))


def fit_drift(
    changes: Sequence[Pair], drift: float | None = None, least_spread: float = 1e-3, num_starts: int = 60
) -> tuple[float, float, float]:
    """Start, spread per root of a day and drift of greatest likelihood on a grid; one start is the least."""
    days, change = columns(changes)
    best = (math.inf, 0.0, 0.0, 0.0)
    starts = np.geomspace(LEAST_START, 0.5, num_starts)
    spreads = np.geomspace(least_spread, 0.1, 80)
    for start, spread in itertools.product(starts, spreads):
        variance = start**2 + spread**2 * days
        mean = drift_of(changes, start, spread) if drift is None else drift
        terms = np.log(variance) + (change - mean * days) ** 2 / variance
        best = min(best, (float(np.sum(weights(changes) * terms)), float(start), float(spread), mean))
    return best[1:]


def columns(changes: Sequence[Pair]) -> tuple[FloatArray, FloatArray]:
    return np.array([days for _, days, _ in changes]), np.array([change for _, _, change in changes])


def main() -> None:
    found = pairs()
    _, _, drift = fit_drift([pair for changes in found.values() for pair in changes])
    _, least_spread, _ = fit_drift(found["list"], drift, num_starts=1)
    everything = [pair for changes in found.values() for pair in changes]
    lines = [
        "# Written by tools/fit_price_age.py from pairs of the bundled prices; see its docstring.",
        f"drift_per_day = {drift:.3g}",
        f"oldest_days = {max(days for _, days, _ in everything):.0f}",
    ]
    for name, changes in sorted(found.items()):
        if len(changes) < LEAST_PAIRS:
            print(f"{name}: {len(changes)} pairs are too few")
            continue
        start, spread, _ = fit_drift(changes, drift, least_spread, num_starts=1 if name == "list" else 60)
        lines += ["", f"[{name}]", f"start = {start:.3g}", f"spread_per_root_day = {spread:.3g}"]
        lines += [f"num_pairs = {len(changes)}", f"num_sellers = {len({seller for seller, _, _ in changes})}"]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
