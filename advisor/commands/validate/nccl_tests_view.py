"""A judged nccl-tests run as an answer: every size against its band, and what a slow run looks like."""

from collections.abc import Mapping

from advisor.render.answer import Answer, Axis, Block, Chart, Datum, Paragraph, Series, Table, columns
from advisor.render.numbers import BINARY_SIZE, LEGEND, RATE, show, show_quantity
from advisor.simulator.collectives.nccl_tests import RunVerdict
from advisor.simulator.collectives.prediction import LARGE_BYTES
from advisor.simulator.quantity import Quantity

_WORDS = {
    "as expected": "is as expected",
    "slow": "is slower than expected",
    "fast": "is faster than expected",
}
_LARGE_SIZES = "16 MiB and more"


def nccl_tests_answer(judged: RunVerdict, inputs: Mapping[str, object], notes: tuple[str, ...]) -> Answer:
    """Return the verdict over the large messages, the sizes, the curve, and known faults that would explain it."""
    run = judged.run
    group = judged.topology
    where = f"{group.num_ranks} x {judged.accelerator}" + (
        f" in {group.num_nodes} nodes" if group.num_nodes > 1 else ""
    )
    large = [size.verdict for size in judged.sizes if size.num_bytes >= LARGE_BYTES]
    others = [verdict for verdict in large if verdict != judged.verdict]
    apart = (
        f"; {len(others)} of {len(large)} sizes differ: {', '.join(sorted(set(others)))}" if others else ""
    )
    headline = f"{run.operation} on {where} {_WORDS[judged.verdict]} (messages of {_LARGE_SIZES}){apart}"
    rows = tuple(
        (
            show(float(size.num_bytes), BINARY_SIZE),
            show(size.measured_bus_bytes_per_s, RATE),
            show_quantity(size.expected_bus_bytes_per_s, RATE),
            size.verdict,
        )
        for size in judged.sizes
    )
    blocks: list[Block] = [
        Paragraph(headline, emphasis=True),
        Table(columns("size> | measured> | expected | verdict"), rows, title="Bus bandwidth"),
        _chart(judged),
    ]
    if judged.explanations:
        blocks.append(Paragraph("It looks " + "; or ".join(judged.explanations) + "."))
    blocks.append(Paragraph(LEGEND))
    warnings = (
        (f"{run.num_wrong:,} values of the results are wrong (#wrong): a link or a memory corrupts data",)
        if run.num_wrong
        else ()
    )
    return Answer(
        result={
            "operation": run.operation,
            "accelerator": judged.accelerator,
            "num_ranks": group.num_ranks,
            "num_nodes": group.num_nodes,
            "verdict": judged.verdict,
            "num_wrong": run.num_wrong,
            "sizes": judged.sizes,
            "explanations": judged.explanations,
            "topology": group,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="sizes",
        notes=notes,
        warnings=warnings,
    )


def _chart(judged: RunVerdict) -> Chart:
    """Return the chart of measured bandwidth over the expected band."""

    def band_datum(size: int, band: Quantity) -> Datum:
        return Datum(float(size), band.value, band.low, band.high)

    sizes = [size for size in judged.sizes if size.expected_bus_bytes_per_s.low > 0]
    return Chart(
        "line",
        "Measured against expected",
        Axis("message", "bytes", is_log=True),
        Axis("bus bandwidth", "bytes/s", "up is faster", is_log=True),
        (
            Series("expected", tuple(band_datum(s.num_bytes, s.expected_bus_bytes_per_s) for s in sizes)),
            Series("measured", tuple(Datum(float(s.num_bytes), s.measured_bus_bytes_per_s) for s in sizes)),
        ),
        "The band is the 80 % interval of the prediction",
        is_in_terminal=False,
    )
