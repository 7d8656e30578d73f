"""What-if questions on a page: controls, and a table that a script ranks again from a response surface."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.catalog.units import MILLISECOND_S
from advisor.render.document import Json
from advisor.render.html_chart import embed_json

ID: Final = "what-if"
TITLE: Final = "What if"
_TERMS: Final = {
    "on_demand": "on demand",
    "spot": "spot",
    "reserved_1y": "reserved for 1 year",
    "reserved_3y": "reserved for 3 years",
}
_STEPS: Final = 200
"""Positions of a slider; loads and limits lie on logarithmic scales."""
_HEADERS: Final = ("#", "take", "runs", "offer", "$/h", "$ a month", "$/Mtok", "holds")


def what_if_html(data: Mapping[str, Any]) -> str:
    """Return the section: controls, the ranking, the error against new runs, and the data of the script.

    There is no form, so nothing can be sent; a link to the page keeps the setting in its fragment.
    """
    surface = data["surface"]
    limits = surface["tpot_limits_s"]
    loads = data["loads_per_s"]
    low_ms, high_ms, asked_ms = (x / MILLISECOND_S for x in (limits[0], limits[-1], data["tpot_limit_s"]))
    formats = [("", "any"), *((each, each) for each in surface["precisions"])]
    terms = [(each, _TERMS.get(each, each)) for each in surface["terms"]]
    accelerators = [("", "nothing"), *((each, each) for each in data["accelerators"])]
    controls = (
        _range("load", "Load", "requests/s", loads[0], loads[1], surface["rate_per_s"]),
        _range("limit", "p99 time per output token", "ms", low_ms, high_ms, asked_ms),
        _select("precision", "Number format of weights", formats),
        _select("term", "Commitment", terms, data["term"]),
        _number("hours", "Hours a day [h]", 24.0, 0.5, 24.0, 0.5),
        _select("gpu", "Change the price of", accelerators),
        _number("change", "Change it by [%]", 0.0, -90.0, 300.0, 5.0),
    )
    rows = "".join(f'<tr class="row">{"".join(map(_cell, _HEADERS, row))}</tr>' for row in data["rows"])
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in _HEADERS)
    return (
        f'<section id="{ID}" aria-labelledby="{ID}-title"><h2 id="{ID}-title">{TITLE}</h2>\n'
        '<p class="description">Ranked on this page by the rules of the search, from simulated capacities. The address '
        "of the page keeps the setting.</p>\n"
        f'<div class="controls" role="group" aria-label="Controls of what-if">{"".join(controls)}'
        '<button type="button" class="reset" id="what-if-reset">As asked</button></div>\n'
        f'<p class="lead" id="{ID}-answer" role="status" aria-live="polite">{html.escape(data["answer"])}</p>\n'
        '<div class="scroll" role="region" aria-label="Ranking of what-if" tabindex="0">'
        f'<table class="stacks" id="{ID}-rows" aria-label="What-if ranking">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
        f"<p>{html.escape(_error_words(data['checks']))}</p>\n"
        f'<script type="application/json" id="{ID}-data">{embed_json(_compact(data))}</script></section>'
    )


def _cell(header: str, text: str) -> str:
    return f'<td data-label="{html.escape(header, quote=True)}">{html.escape(text)}</td>'


def _range(name: str, label: str, unit: str, low: float, high: float, value: float) -> str:
    """Return a slider on a logarithmic scale beside the number that it sets."""
    names = html.escape(f"{label} [{unit}]")
    return (
        f'<div class="control"><label for="w-{name}">{names}</label><input type="range" id="w-{name}-slider" '
        f'min="0" max="{_STEPS}" step="1" value="{_STEPS // 2}" aria-label="{names}, slider">'
        f'<input type="number" id="w-{name}" min="{low:.4g}" max="{high:.4g}" step="any" value="{value:.4g}"></div>'
    )


def _number(name: str, label: str, value: float, low: float, high: float, step: float) -> str:
    return (
        f'<div class="control"><label for="w-{name}">{html.escape(label)}</label><input type="number" id="w-{name}" '
        f'min="{low:g}" max="{high:g}" step="{step:g}" value="{value:g}"></div>'
    )


def _select(name: str, label: str, choices: Sequence[tuple[str, str]], chosen: str = "") -> str:
    options = "".join(
        f'<option value="{html.escape(value, quote=True)}"{" selected" if value == chosen else ""}>'
        f"{html.escape(words)}</option>"
        for value, words in choices
    )
    return (
        f'<div class="control"><label for="w-{name}">{html.escape(label)}</label>'
        f'<select id="w-{name}">{options}</select></div>'
    )


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
    kept = ("loads_per_s", "tpot_limit_s", "term", "quantile_z", "z80", "sampling_sigma")
    return {
        **{name: data[name] for name in kept},
        "surface": {**surface, "deployments": deployments},
        "offers": offers,
    }
