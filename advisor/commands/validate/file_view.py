"""Verdicts on measured files as answers: servers, memory of a start-up log, and links."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.formats.prometheus_text import ServerMetrics
from advisor.catalog.formats.server_log import ServerLog
from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.own_server import LOCAL_ENGINES, ServerComparison, ServerFigure, exact
from advisor.evidence.server_memory import MemoryComparison, MemoryFigure
from advisor.probes.link_judgement import JudgedLinks
from advisor.probes.record import Measurement
from advisor.probes.topology import picture
from advisor.render import numbers
from advisor.render.answer import Answer, Block, Figure, Paragraph, Table, bullet_list, columns
from advisor.simulator.memory import expert_padding_bytes

_LABELS: Final = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "e2e_ms": "end to end",
    "output_tok_s": "output tokens",
    "total_tok_s": "tokens",
    "req_s": "requests",
    "decode_tok_s": "decode",
    "prefill_tok_s": "prefill",
}
_STATUS_WORDS: Final = {
    "pass": "as expected",
    "warn": "a little low",
    "fail": "too low",
    "info": "measured",
    "not_measured": "not measured",
}
_MOST_PAIRS: Final = 64
"""Largest number of rates that the terminal lists."""


def server_answer(
    compared: Sequence[ServerComparison],
    title: str,
    inputs: Mapping[str, object],
    notes: tuple[str, ...],
    metrics: ServerMetrics | None = None,
) -> Answer:
    """Return measured loads of a server beside their predictions, and what would explain a difference."""
    blocks: list[Block] = []
    warnings = []
    rows: list[tuple[str, ...]] = []
    for one in compared:
        where = _load_words(one)
        if not one.figures:
            reason = one.prediction.reason or "nothing that was measured is predicted"
            warnings.append(f"{where}: {reason}")
        rows += [(where if number == 0 else "", *_cells(figure)) for number, figure in enumerate(one.figures)]
    blocks.append(Paragraph(_headline(compared, title), emphasis=True))
    if rows:
        blocks.append(Table(columns("load~ | figure | measured> | expected | verdict"), tuple(rows)))
    causes = dict.fromkeys(
        f"{cause.words}: then {numbers.percent(math.expm1(cause.error))} are left"
        for one in compared
        for cause in one.causes[:3]
    )
    if causes:
        blocks.append(bullet_list("What would explain it, likeliest first", causes))
    elif any(
        one.verdict == "slower" for one in compared if one.figures and one.row["engine"] not in LOCAL_ENGINES
    ):
        blocks.append(Paragraph("No single setting that is tried explains the difference."))
    if metrics is not None and (state := _state_words(metrics)):
        blocks.append(Paragraph(f"At the reading: {state}."))
    blocks.append(Paragraph(numbers.LEGEND))
    assumed = dict.fromkeys(sentence for one in compared for sentence in one.assumed)
    result = [_record(one) for one in compared]
    return Answer(
        result={"loads": result} | ({} if metrics is None else {"state": metrics}),
        inputs=inputs,
        blocks=tuple(blocks),
        records="loads",
        notes=(*notes, *assumed),
        warnings=tuple(warnings),
    )


def _record(one: ServerComparison) -> dict[str, object]:
    return {
        "conditions": dict(one.row),
        "status": one.prediction.status,
        "reason": one.prediction.reason,
        "verdict": one.verdict if one.figures else None,
        "mean_error_fraction": math.expm1(one.error) if one.figures else None,
        "figures": one.figures,
        "causes": one.causes,
        "assumed": one.assumed,
    }


def _headline(compared: Sequence[ServerComparison], title: str) -> str:
    judged = [one for one in compared if one.figures]
    if not judged:
        return f"The {title} was read, but nothing in it could be compared."
    verdicts = [one.verdict for one in judged]
    slower = verdicts.count("slower")
    row = judged[0].row
    weights = judged[0].prediction.weight_dtype
    server = f"{row.get('model')} ({weights}) with {row.get('engine')} on {_layout(row)}"
    by = "; ".join(_means([figure for one in judged for figure in one.figures]))
    if slower:
        return f"{server}: slower than it should be in {slower} of {len(judged)} loads; {by} than predicted"
    if "faster" in verdicts:
        part = f" in {verdicts.count('faster')} of {len(judged)} loads" if len(judged) > 1 else ""
        return f"{server}: most figures are better than expected{part}; {by} than predicted"
    figures = [figure.verdict for one in judged for figure in one.figures]
    apart = [f"{figures.count(word)} {word}" for word in ("slower", "faster") if word in figures]
    except_ = f" except {' and '.join(apart)} of {len(figures)} figures" if apart else ""
    return f"{server}: as expected{except_}; {by} than predicted"


_QUANTITIES: Final = {
    "throughput": ("output_tok_s", "total_tok_s", "req_s"),
    "decode": ("decode_tok_s",),
    "prefill": ("prefill_tok_s",),
    "TTFT": ("ttft_ms",),
    "TPOT": ("tpot_ms", "itl_ms"),
    "requests": ("e2e_ms",),
}
"""Metrics by the quantity whose mean a headline tells: means over unlike quantities say nothing."""


def _means(figures: Sequence[ServerFigure]) -> list[str]:
    """Return how far each quantity is from its prediction; whole requests only where they are all that is measured."""
    logs = {
        name: [
            figure.log_ratio for figure in exact([one for one in figures if one.metric.startswith(metrics)])
        ]
        for name, metrics in _QUANTITIES.items()
    }
    told = {name: each for name, each in logs.items() if each}
    if len(told) > 1:
        told.pop("requests", None)
    return [f"{name} {_difference(math.fsum(each) / len(each))}" for name, each in told.items()]


_TOLD_AS_FACTOR: Final = 1.5
"""Ratio of measured to predicted time from which it is told as a factor: above, a percentage slower is misread."""


def _difference(log_ratio: float) -> str:
    """Return how much slower or faster a server is, for the logarithm of its times over the predicted ones."""
    ratio = math.exp(abs(log_ratio))
    way = "slower" if log_ratio > 0 else "faster"
    if ratio < _TOLD_AS_FACTOR:
        return f"{numbers.percent(ratio - 1.0)} {way}"
    return f"{ratio:.2g} times {way}"


def _layout(row: Mapping[str, str]) -> str:
    degrees = [
        f"{name.upper()}{row[name]}"
        for name in ("tp", "pp", "dp", "ep")
        if row.get(name, "1") not in ("", "1")
    ]
    if row.get("mode") == "disagg":
        degrees.append(f"({row.get('decode_gpus')} for decode, {row.get('prefill_gpus')} for prefill)")
    return " ".join([row.get("gpu", ""), *degrees])


def _load_words(one: ServerComparison) -> str:
    row = one.row
    if row.get("load") == "batch1":
        return row.get("case_id", "")
    sent = (
        numbers.client_words(row["concurrency"])
        if row.get("concurrency") and row.get("load") == "closed"
        else f"{row['request_rate']}/s"
        if row.get("request_rate")
        else "all at once"
    )
    return f"{sent}, {_whole(row.get('isl'))} in, {_whole(row.get('osl'))} out"


def _whole(text: str | None) -> str:
    return f"{float(text or 0):,.0f}"


def _cells(figure: ServerFigure) -> tuple[str, ...]:
    name, _, statistic = figure.metric.rpartition("_")
    label = _LABELS.get(name)
    if label is not None:
        quantity = figure.predicted.scale(MILLISECOND_S)
        measured = numbers.show(figure.measured * MILLISECOND_S, numbers.TIME)
        if figure.within:
            low, high = (numbers.show(bound * MILLISECOND_S, numbers.TIME) for bound in figure.within)
            measured = f"{low} to {high}"
        return (
            f"{label} {statistic}",
            measured,
            numbers.show_quantity(quantity, numbers.TIME),
            figure.verdict,
        )
    ladder = numbers.REQUEST_RATE if figure.metric == "req_s" else numbers.TOKEN_RATE
    words = numbers.show_quantity(figure.predicted, ladder)
    return (
        _LABELS.get(figure.metric, figure.metric),
        numbers.show(figure.measured, ladder),
        words,
        figure.verdict,
    )


def _state_words(metrics: ServerMetrics) -> str:
    parts = [
        ("KV cache", f"{metrics.kv_tokens:,} tokens" if metrics.kv_tokens else ""),
        (
            "KV cache in use",
            "" if metrics.kv_usage_fraction is None else numbers.percent(metrics.kv_usage_fraction),
        ),
        ("running", "" if metrics.num_running is None else f"{metrics.num_running:.0f} requests"),
        ("waiting", "" if metrics.num_waiting is None else f"{metrics.num_waiting:.0f} requests"),
        (
            "found in the prefix cache",
            "" if metrics.prefix_hit_fraction is None else numbers.percent(metrics.prefix_hit_fraction),
        ),
        ("preemptions", "" if metrics.num_preemptions is None else f"{metrics.num_preemptions:.0f}"),
    ]
    return ", ".join(f"{name} {value}" for name, value in parts if value)


def memory_answer(
    found: MemoryComparison, log: ServerLog, inputs: Mapping[str, object], notes: tuple[str, ...]
) -> Answer:
    """Return the memory of a start-up log beside the plan's."""
    deployment = found.deployment
    where = numbers.layout_words(deployment, deployment.accelerator.id, 1)
    close = sum(figure.is_close for figure in found.figures)
    agreed = (
        f"{close} of {len(found.figures)} figures of the log agree with the plan within 8 %"
        if found.figures
        else "the plan fits, and no figure of the log can be compared with it"
    )
    fails = "the server did not start; " if log.has_failed else ""
    server = f"{deployment.model.id} ({deployment.weight_dtype}) with {deployment.engine.name} on {where}"
    head = f"{server}: {fails}{agreed}"
    blocks: list[Block] = [Paragraph(head, emphasis=True)]
    if found.figures:
        rows = tuple(
            (
                figure.name,
                _size(figure, figure.logged),
                _size(figure, figure.planned),
                f"{figure.ratio:.2f}" if figure.logged > 0 and figure.planned > 0 else "-",
            )
            for figure in found.figures
        )
        blocks.append(Table(columns("figure~ | log> | plan> | plan/log>"), rows))
    padding = expert_padding_bytes(deployment)
    parts = {
        "weights": found.plan.weight_bytes + padding,
        "activations": found.plan.activation_bytes,
        "context and graphs": found.plan.runtime_bytes - padding,
        "left for the cache": found.plan.kv_bytes,
    }
    sizes = ", ".join(f"{name} {numbers.show(size, numbers.BINARY_SIZE)}" for name, size in parts.items())
    blocks.append(Paragraph(f"Plan of one accelerator: {sizes}."))
    if found.causes:
        blocks.append(bullet_list("What differs", found.causes))
    warnings = (f"the log says that the server did not start{_why_not(log)}",) if log.has_failed else ()
    return Answer(
        result={
            "figures": found.figures,
            "log": log,
            "plan": found.plan,
            "causes": found.causes,
            "weight_dtype": deployment.weight_dtype,
            "kv_dtype": deployment.kv_dtype,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="figures",
        notes=(*notes, *found.assumed),
        warnings=warnings,
    )


def _why_not(log: ServerLog) -> str:
    """Return what the sizes of a log say of why its server did not start; nothing where they do not say it."""
    cache = log.kv_bytes if log.kv_bytes is not None else log.kv_tokens
    if cache is not None and cache < 0:
        return ": its weights and the memory of an iteration leave none for the cache"
    if cache is None:
        return " and no size of its cache: its weights may leave no memory for it"
    is_short = (
        log.kv_tokens is not None and log.max_model_len is not None and log.kv_tokens < log.max_model_len
    )
    return ": its cache is smaller than one request" if is_short else ""


def _size(figure: MemoryFigure, value: float) -> str:
    return f"{value:,.0f}" if figure.unit == "tokens" else numbers.show(value, numbers.BINARY_SIZE)


def links_answer(found: JudgedLinks, inputs: Mapping[str, object], notes: tuple[str, ...]) -> Answer:
    """Return the verdict on links and health checks."""
    measurements = [m for m in found.measurements if not m.id.startswith("health.peers")]
    wrong = [check for check in found.checks if check.status in ("fail", "warn")]
    blocks: list[Block] = [Paragraph(_links_headline(found), emphasis=True)]
    if wrong:
        rows = tuple((check.status.upper(), check.name, check.detail) for check in wrong)
        blocks.append(Table(columns("status | check~ | detail~"), rows, title="Checks that did not pass"))
    if skipped := [check.name for check in found.checks if check.status == "skip"]:
        blocks.append(Paragraph(f"Not measured, as the diagnostic skipped it: {', '.join(skipped)}."))
    if measurements:
        rates = tuple(
            (
                _copy_words(m),
                numbers.show_unit(m.value, m.unit),
                numbers.show_unit(m.expected, m.unit),
                _STATUS_WORDS[m.status],
            )
            for m in measurements[:_MOST_PAIRS]
        )
        blocks.append(
            Table(columns("copy~ | measured> | expected> | verdict"), rates, title="Rates of links")
        )
    if found.topology is not None:
        blocks.append(Figure(picture(found.topology), title="How the GPUs are joined"))
    if found.remarks:
        blocks.append(bullet_list("What follows", found.remarks))
    if found.unread:
        blocks.append(Paragraph(f"Not judged: {', '.join(found.unread)}."))
    return Answer(
        result={
            "status": found.status,
            "accelerator": found.accelerator,
            "measurements": measurements,
            "checks": found.checks,
            "topology": found.topology,
            "remarks": found.remarks,
            "unread": found.unread,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="measurements",
        notes=notes,
    )


def _copy_words(m: Measurement) -> str:
    """Return source, target and test of a copy."""
    if m.id == "peer.copy":
        return m.pattern.partition(", ")[2]
    if m.id == "network.port":
        return f"host to host, {m.pattern}"
    way = f"host to GPU {m.gpu}" if m.id == "host_link.h2d" else f"GPU {m.gpu} to host"
    return f"{way}, {m.pattern}"


def _links_headline(found: JudgedLinks) -> str:
    rates = [
        m
        for m in found.measurements
        if m.status in ("pass", "warn", "fail") and not m.id.startswith("health.")
    ]
    parts = []
    if rates:
        where = f" on {found.accelerator}" if found.accelerator else ""
        parts.append(f"{sum(m.status == 'pass' for m in rates)} of {len(rates)} rates are as expected{where}")
    if found.checks:
        counts = Counter(check.status for check in found.checks)
        parts.append(f"{counts['pass']} of {len(found.checks)} checks passed")
        if counts["skip"]:
            parts.append(f"{counts['skip']} skipped")
    if found.topology is not None:
        parts.append(f"{found.topology.num_gpus} GPUs")
    return "; ".join(parts) if parts else "Nothing in the report is judged without --gpu."
