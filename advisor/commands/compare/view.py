"""Two probes side by side: how many quantities agree, and the largest changes."""

from collections.abc import Sequence
from dataclasses import asdict

from advisor.probes.compare import ALIKE, Difference
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.numbers import show_unit


def comparison_answer(differences: Sequence[Difference], inputs: dict[str, object]) -> Answer:
    """Return the answer of `advisor compare` for two probes."""
    unlike = [d for d in differences if not d.is_alike]
    text = f"{len(differences) - len(unlike)} of {len(differences)} quantities agree within {ALIKE:.0%}"
    rows = tuple(
        (
            f"{'' if d.gpu is None else f'GPU {d.gpu} '}{d.id} ({d.instrument}) {d.pattern}",
            show_unit(d.first, d.unit),
            show_unit(d.second, d.unit),
            f"{d.change_fraction:+.1%}",
        )
        for d in (unlike or differences)[:40]
    )
    records = [
        {**asdict(d), "change_fraction": d.change_fraction, "is_alike": d.is_alike} for d in differences
    ]
    blocks: list[Block] = [Paragraph(text, emphasis=True)]
    blocks += (
        [Table(columns("quantity~ | first> | second> | change>"), rows, "Largest changes")] if rows else []
    )
    return Answer(
        result={
            "kind": "comparison",
            "num_compared": len(differences),
            "num_alike": len(differences) - len(unlike),
            "differences": records,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="differences",
    )
