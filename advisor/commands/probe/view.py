"""A probe as an answer: the verdict in a sentence, what is wrong, the rates, and a kit to dispute with."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from advisor.probes.document import Probe, content_of
from advisor.probes.expectations import text_of
from advisor.probes.fabric import pair_rates
from advisor.probes.pasted import CERTAINTY
from advisor.probes.record import Measurement
from advisor.probes.topology import picture
from advisor.render import numbers
from advisor.render.answer import (
    Answer,
    Axis,
    Block,
    Chart,
    Column,
    Datum,
    Figure,
    Paragraph,
    Series,
    Table,
    columns,
)

EXIT_FAIL: Final = 4
EXIT_WARN: Final = 5
EXIT_MISSING: Final = 6
_HIDDEN: Final = (".sweep", ".latency", "memory.cache_read", "memory.strided_read", "memory.latency", "peer.")
_SHORT: Final = 24
_PEERS: Final = "health.peers."
_WITH_PATTERN: Final = ("collective", "network", "peer", "operator")
_MOST_BARS: Final = 24
"""Figures of the chart, those that fall behind most first."""


def probe_answer(probe: Probe, inputs: dict[str, object], *, strict: bool) -> Answer:
    """Return the answer of `advisor probe`: exit code 4 for FAIL, 5 for WARN if strict, 6 without a GPU."""
    return Answer(
        result=content_of(probe),
        inputs=inputs,
        blocks=tuple(blocks_of(probe)),
        records="measurements",
        warnings=tuple(probe.machine.missing),
        exit_code=exit_code(probe, strict=strict),
    )


def proof_answer(
    probe: Probe, sources: Sequence[dict[str, str]], inputs: dict[str, object], *, strict: bool
) -> Answer:
    """Return the answer of `advisor probe read`: exit code 4 for FAIL, 5 for WARN if strict."""
    left_out = ("benchmark_version", "mode", "seal", "measured_on", "is_complete")
    content = {name: value for name, value in content_of(probe).items() if name not in left_out}
    code = {"fail": EXIT_FAIL, "warn": EXIT_WARN if strict else 0}.get(probe.verdict, 0)
    from_files = ", ".join(f"{one['formats']} ({one['file']})" for one in sources)
    blocks = [
        Paragraph(f"By pasted text, {sentence(probe)}", emphasis=True),
        Paragraph(f"Read: {from_files}."),
        Paragraph(CERTAINTY),
        *(
            Paragraph(f"Not judged: {m.value}: {m.note}.")
            for m in probe.measurements
            if m.id == "pasted.unjudged"
        ),
        *blocks_of(probe)[2:],
    ]
    return Answer(
        result=content | {"kind": "pasted_proof", "sources": list(sources), "certainty": CERTAINTY},
        inputs=inputs,
        blocks=tuple(blocks),
        records="measurements",
        exit_code=code,
    )


def exit_code(probe: Probe, *, strict: bool) -> int:
    """Return 0 for pass, 4 for fail, 5 for warn under strict, 6 if no GPU was measured."""
    if probe.verdict == "fail":
        return EXIT_FAIL
    if not any(m.gpu is not None and m.value is not None for m in probe.measurements):
        return EXIT_MISSING
    return EXIT_WARN if strict and probe.verdict == "warn" else 0


def sentence(probe: Probe) -> str:
    """Return the verdict in one line, e.g. "8 x h200-sxm: PASS, 61 of 61 checks"."""
    judged = [m for m in probe.measurements if m.status in ("pass", "warn", "fail")]
    passed = sum(m.status == "pass" for m in judged)
    num_skipped = sum(m.status == "not_measured" and m.id != "pasted.unjudged" for m in probe.measurements)
    number = len(probe.machine.gpus)
    unknown = f"unknown board {probe.machine.gpus[0].name}".rstrip() if number else "no GPU"
    name = probe.accelerator or unknown
    is_unseen = probe.machine.runtime == "pasted" and not any(
        m.id == "identity.count" for m in probe.measurements
    )
    nothing = "no text states the number of GPUs" if is_unseen else "no GPU was found"
    head = f"{number} x {name}" if number else nothing
    words = {"pass": "PASS", "warn": "WARN", "fail": "FAIL"}.get(probe.verdict, "nothing was judged")
    rest = f", {num_skipped} not measured" if num_skipped else ""
    rest += "" if probe.is_complete else "; not complete, --resume goes on"
    return (
        f"{head}: {words}, {passed} of {len(judged)} checks passed{rest}"
        if judged
        else f"{head}: {words}{rest}"
    )


def blocks_of(probe: Probe) -> list[Block]:
    """Return verdict, failed checks, rates, sweeps' ends and commands."""
    blocks: list[Block] = [Paragraph(sentence(probe), emphasis=True), Paragraph(_machine(probe))]
    wrong = [m for m in probe.measurements if m.status in ("fail", "warn")]
    if wrong:
        wrong.sort(key=lambda m: m.status != "fail")
        blocks.append(_checks("Not as it should be", wrong))
        blocks += [Paragraph(text) for text in _advice(wrong)]
    rates = [
        m
        for m in probe.measurements
        if m not in wrong and m.value is not None and m.id != "pasted.unjudged" and not _is_detail(m)
    ]
    identity = [m for m in rates if m.id.startswith(("identity.", "health."))]
    measured = [m for m in rates if m not in identity]
    blocks += [_checks("Measured", measured)] if measured else []
    blocks += [_checks("Identity and health", identity)] if identity else []
    compared = _expectation_chart(probe.measurements)
    blocks += [] if compared.is_empty else [compared]
    if wrong:
        commands = dict.fromkeys(text_of(m.id).command for m in wrong if text_of(m.id).command)
        blocks.append(Figure("\n".join(commands), title="Commands with which the provider can check it"))
    if probe.machine.topology is not None:
        index = {number: gpu.index for number, gpu in enumerate(probe.machine.gpus)}
        pairs = pair_rates(probe.measurements).items()
        # A pasted report may hold rates of more GPUs than another report lists.
        copies = {(index.get(i, i), index.get(j, j)): rate for (i, j), rate in pairs}
        drawn = picture(probe.machine.topology, copies)
        blocks.append(Figure(drawn, title="How the GPUs are joined"))
    if any(gpu.vendor != "nvidia" for gpu in probe.machine.gpus):
        blocks.append(Paragraph("advisor was never verified on hardware of this vendor."))
    return blocks


def _expectation_chart(measurements: Sequence[Measurement]) -> Chart:
    """Return each measured figure over what a healthy board reaches, from the lowest to the highest GPU."""
    ratios: dict[str, list[float]] = {}
    for m in measurements:
        if m.id.startswith(("identity.", "health.")) or _is_detail(m):
            continue
        if (
            isinstance(m.value, int | float)
            and isinstance(m.expected, int | float)
            and m.value > 0 < m.expected
        ):
            name = f"{m.id} ({m.instrument})" if m.instrument else m.id
            ratios.setdefault(name, []).append(m.value / m.expected)
    points = tuple(
        Datum(name, 100.0, 100.0 * min(1.0, *found), 100.0 * max(1.0, *found))
        for name, found in sorted(ratios.items(), key=lambda item: min(item[1]))[:_MOST_BARS]
    )
    return Chart(
        "range",
        "Measured against expected",
        Axis("figure"),
        Axis("measured over expected", "%"),
        (Series("", points),),
        "Each bar reaches from what healthy boards are expected to reach, 100 %, to the lowest and the highest GPU",
        is_in_terminal=False,
    )


def _machine(probe: Probe) -> str:
    m = probe.machine
    parts = [
        m.cpu,
        f"{m.num_cpus} CPUs" if m.num_cpus else "",
        f"driver {m.driver}" if m.driver else "",
        f"torch {m.torch}" if m.torch else "",
    ]
    parts += [f"Triton {m.triton}" if m.triton else "", m.system, f"measured {probe.measured_on}"]
    return ", ".join(part for part in parts if part) + f" ({probe.mode} mode)."


def _is_detail(m: Measurement) -> bool:
    return any(part in m.id for part in _HIDDEN)


def _checks(title: str, measurements: Sequence[Measurement]) -> Table:
    """Return a table of checks; equal findings of several GPUs are one row."""
    rows: dict[tuple[str, ...], list[int | None]] = {}
    for m in measurements:
        row = (
            m.status.upper() if m.status in ("fail", "warn") else m.status.replace("_", " "),
            _name(m),
            *_figures(m),
            m.basis or m.source.partition(":")[0] if len(m.source) < _SHORT or m.basis else "",
        )
        rows.setdefault(row, []).append(m.gpu)
    named = tuple((row[0], f"{_where(gpus)}{row[1]}", *row[2:]) for row, gpus in rows.items())
    figures = (Column("measured", "right", fold=True), Column("expected", "right", fold=True))
    return Table((*columns("status | check~"), *figures, *columns("rests on~")), named, title)


def _where(gpus: Sequence[int | None]) -> str:
    """Return the GPUs of a finding in words: `GPU 3 `, `GPU 0-7 `, `GPU 0-2, 5 `; empty for the machine."""
    numbers = sorted({gpu for gpu in gpus if gpu is not None})
    if not numbers:
        return ""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    ]
    return f"GPU {', '.join(f'{run[0]}-{run[-1]}' if len(run) > 1 else f'{run[0]}' for run in runs)} "


def _name(m: Measurement) -> str:
    if m.id.startswith(_PEERS):
        return f"behind the best GPU in {m.id.removeprefix(_PEERS)}, {m.pattern}".rstrip(", ")
    how = f" ({m.instrument})" if m.instrument and not m.id.startswith("identity.") else ""
    pattern = f", {m.pattern}" if m.pattern and m.id.startswith(_WITH_PATTERN) else ""
    return f"{m.id}{how}{pattern}"


def _figures(m: Measurement) -> tuple[str, str]:
    return numbers.show_unit(m.value, m.unit), numbers.show_unit(m.expected, m.unit)


def _advice(wrong: Sequence[Measurement]) -> list[str]:
    lines: dict[str, None] = {}
    for m in wrong:
        text = m.remediation or m.note
        if text:
            note = f" ({m.note})" if m.note and m.note != text else ""
            lines[f"{m.title or m.id}: {text}{note}"] = None
    return list(lines)
