"""How often the faster of two engines is told: a section of docs/accuracy.md."""

from collections.abc import Sequence

from advisor.commands.validate.serving_accuracy_view import METRIC_NAMES
from advisor.evidence.scores import JudgedRow
from advisor.evidence.serving.accuracy import CORE_METRICS, engine_order

ORDER_HEADER = """
## Order of engines

Runs of two engines on the same accelerators under the same conditions (layouts may differ), measured more than 5 %
apart; earlier and blind rows together, shipped parameters. *Faster one told*: by however little it is predicted to be
faster; the other columns call what is predicted within 5 % of each other a tie.

| metric | pairs | faster one told | order right | called a tie | order wrong |
|---|---|---|---|---|---|
"""


def order_table(rows: Sequence[JudgedRow]) -> str:
    """How often the order of two engines is told, by metric."""
    lines = []
    for metric in CORE_METRICS:
        found = engine_order(rows, metric)
        wrong = found.num_pairs - found.num_right - found.num_tied
        shares = (
            f"{100 * count / found.num_pairs:.0f} %"
            for count in (found.num_told, found.num_right, found.num_tied, wrong)
        )
        lines.append("| " + " | ".join((METRIC_NAMES[metric], str(found.num_pairs), *shares)) + " |")
    return ORDER_HEADER + "\n".join(lines) + "\n"
