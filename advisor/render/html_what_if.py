"""What-if questions on a page: which controls and which script an answer of each kind gets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.catalog.units import MILLISECOND_S
from advisor.render.document import Json
from advisor.render.html_controls import ID, TITLE, choice, controls_html, number, slider

__all__ = ["ID", "TITLE", "what_if_html", "what_if_script"]

SERVING: Final = "serving"
_SCRIPTS: Final = {
    SERVING: "what_if_serving.js",
    "cost": "what_if_cost.js",
    "build": "what_if_build.js",
    "simulate": "what_if_simulate.js",
}
_TERMS: Final = {
    "on_demand": "on demand",
    "spot": "spot",
    "reserved_1y": "reserved for 1 year",
    "reserved_3y": "reserved for 3 years",
}
_HEADERS: Final = ("#", "take", "runs", "offer", "$/h", "$ a month", "$/Mtok", "holds")


def what_if_html(data: Mapping[str, Any]) -> str:
    """Return the section with controls of an answer's what-if data.

    Raises: KeyError, TypeError, ValueError: a field is missing, or of another kind.
    """
    what_if_script(data)
    return controls_html(_serving(data) if _kind(data) == SERVING else data)


def what_if_script(data: Mapping[str, Any]) -> str:
    """Return the name of the script that computes the answers to other settings.

    Raises: KeyError: the data are of no known kind.
    """
    return _SCRIPTS[_kind(data)]


def _kind(data: Mapping[str, Any]) -> str:
    """Return the kind of the data; those of a recommendation about serving state none."""
    return str(data.get("kind", SERVING))


def _serving(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a response surface of deployments."""
    surface = data["surface"]
    limits = surface["tpot_limits_s"]
    loads = data["loads_per_s"]
    low_ms, high_ms, asked_ms = (x / MILLISECOND_S for x in (limits[0], limits[-1], data["tpot_limit_s"]))
    formats = [("", "any"), *((each, each) for each in surface["precisions"])]
    terms = [(each, _TERMS.get(each, each)) for each in surface["terms"]]
    accelerators = [("", "nothing"), *((each, each) for each in data["accelerators"])]
    return {
        "about": "Ranked on this page by the rules of the search, from simulated capacities.",
        "controls": [
            slider("load", "Load [requests/s]", surface["rate_per_s"], loads[0], loads[1]),
            slider("limit", "p99 time per output token [ms]", asked_ms, low_ms, high_ms),
            choice("precision", "Number format of weights", formats),
            choice("term", "Commitment", terms, data["term"]),
            number("hours", "Hours a day [h]", 24.0, 0.5, 24.0, 0.5),
            choice("gpu", "Change the price of", accelerators),
            number("change", "Change it by [%]", 0.0, -90.0, 300.0, 5.0),
        ],
        "headers": _HEADERS,
        "rows": data["rows"],
        "answer": data["answer"],
        "note": _error_words(data["checks"]),
        "script": _compact(data),
    }


def _error_words(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return how far the surface is from new runs of other settings."""
    if not checks:
        return "The surface was not held against new runs: ask the command before you rent."
    same = sum(each["is_same"] for each in checks)
    largest = max(abs(each["cost_error_fraction"]) for each in checks)
    return (
        f"Held against {len(checks)} new runs at other loads and limits: the first option was the same, or a tie, in "
        f"{same}, and its cost differed by at most {100 * largest:.1f} %. Ask the command before you rent."
    )


def _compact(data: Mapping[str, Any]) -> dict[str, Json]:
    """Return the data of the script, with each offer once."""
    surface = data["surface"]
    places: dict[str, int] = {}
    offers: list[Json] = []
    deployments = []
    for each in surface["deployments"]:
        numbers = []
        for offer in each["offers"]:
            key = repr(offer)
            if key not in places:
                places[key] = len(offers)
                offers.append(offer)
            numbers.append(places[key])
        deployments.append({**each, "offers": numbers})
    kept = ("quantile_z", "z80", "likely", "sampling_sigma")
    return {
        **{name: data[name] for name in kept},
        "surface": {**surface, "deployments": deployments},
        "offers": offers,
    }
