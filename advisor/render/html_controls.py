"""Controls on a page: fields and sliders, a table that a script computes again, and the data of the script."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.render.html_chart import embed_json

ID: Final = "what-if"
TITLE: Final = "What if"
_STEPS: Final = 200
"""Positions of a slider, whose scale is logarithmic."""


def controls_html(data: Mapping[str, Any]) -> str:
    """Return the section: controls, the table as asked, lists below it, a note on the error, and the script's data.

    There is no form, so nothing can be sent; a link to the page keeps the setting in its fragment.
    """
    headers = data["headers"]
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in headers)
    rows = "".join(f'<tr class="row">{_cells(headers, row)}</tr>' for row in data["rows"])
    script = {"controls": data["controls"], **data["script"]}
    return (
        f'<section id="{ID}" aria-labelledby="{ID}-title"><h2 id="{ID}-title">{TITLE}</h2>\n'
        f'<p class="description">{html.escape(data["about"])} The address of the page keeps the setting.</p>\n'
        '<div class="controls" role="group" aria-label="Controls of what-if">'
        f"{''.join(map(_control, data['controls']))}"
        f'<button type="button" class="reset" id="{ID}-reset">As asked</button></div>\n'
        f'<p class="lead" id="{ID}-answer" role="status" aria-live="polite">{html.escape(data["answer"])}</p>\n'
        f'<div class="scroll" role="region" aria-label="Table of what-if" tabindex="0">'
        f'<table class="stacks" id="{ID}-rows" aria-label="What-if table">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
        f"{''.join(map(_list, data.get('lists', ())))}<p>{html.escape(data['note'])}</p>\n"
        f'<script type="application/json" id="{ID}-data">{embed_json(script)}</script></section>'
    )


def number(name: str, label: str, asked: float, low: float, high: float, step: float) -> dict[str, Any]:
    """Return a field for a number."""
    return {"name": name, "label": label, "asked": asked, "low": low, "high": high, "step": step}


def slider(name: str, label: str, asked: float, low: float, high: float) -> dict[str, Any]:
    """Return a field for a number with a slider on a logarithmic scale."""
    return {"name": name, "label": label, "asked": asked, "low": low, "high": high, "slider": True}


def choice(name: str, label: str, choices: Sequence[tuple[str, str]], asked: str = "") -> dict[str, Any]:
    """Return a list to choose from; each choice has a value and words."""
    return {"name": name, "label": label, "asked": asked, "choices": [list(each) for each in choices]}


def _control(control: Mapping[str, Any]) -> str:
    name = f"w-{html.escape(control['name'], quote=True)}"
    label = html.escape(control["label"], quote=True)
    start = f'<div class="control"><label for="{name}">{label}</label>'
    if "choices" in control:
        return f'{start}<select id="{name}">{_options(control)}</select></div>'
    low, high, asked = (float(control[each]) for each in ("low", "high", "asked"))
    field = f'<input type="number" id="{name}" min="{low:.6g}" max="{high:.6g}"'
    if control.get("slider"):
        return (
            f'{start}<input type="range" id="{name}-slider" min="0" max="{_STEPS}" step="1" value="{_STEPS // 2}" '
            f'aria-label="{label}, slider">{field} step="any" value="{asked:.6g}"></div>'
        )
    step = f"{control['step']:g}" if control["step"] else "any"
    return f'{start}{field} step="{step}" value="{asked:.6g}"></div>'


def _options(control: Mapping[str, Any]) -> str:
    return "".join(
        f'<option value="{html.escape(value, quote=True)}"{" selected" if value == control["asked"] else ""}>'
        f"{html.escape(words)}</option>"
        for value, words in control["choices"]
    )


def _cells(headers: Sequence[str], row: Sequence[str]) -> str:
    return "".join(
        f'<td data-label="{html.escape(header, quote=True)}">{html.escape(text)}</td>'
        for header, text in zip(headers, row, strict=True)
    )


def _list(shown: Mapping[str, Any]) -> str:
    """Return a titled list that the script fills again."""
    name = f"{ID}-{html.escape(shown['name'], quote=True)}"
    items = "".join(f"<li>{html.escape(each)}</li>" for each in shown["items"])
    title = f'<h3 id="{name}-title">{html.escape(shown["title"])}</h3>'
    return f'{title}<ul id="{name}" aria-labelledby="{name}-title">{items}</ul>'
