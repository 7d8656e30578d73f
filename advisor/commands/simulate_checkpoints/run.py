"""Answer of `advisor simulate checkpoints`, from its options."""

from advisor.ask.measures import parse_seconds
from advisor.ask.options import SharedOptions
from advisor.catalog.units import HOUR_S
from advisor.commands.simulate_checkpoints.options import CheckpointsInput
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import TIME, percent, show
from advisor.simulator.training.goodput import (
    FailureModel,
    cluster_mtbf_s,
    daly_interval_s,
    goodput,
    young_interval_s,
)


def checkpoints(asked: CheckpointsInput, shared: SharedOptions) -> Answer:
    """Return time between failures, checkpoint intervals and goodput of a run whose checkpoints stop it.

    Raises: AdvisorError: a time is malformed.
    """
    stall_s = parse_seconds(asked.checkpoint, "--checkpoint")
    restart_s = parse_seconds(asked.restart, "--restart")
    mtbf_s = cluster_mtbf_s(asked.gpus, asked.mtbf_hours * HOUR_S)
    model = FailureModel(mtbf_s, stall_s, stall_s, restart_s)
    young_s = young_interval_s(mtbf_s, stall_s)
    daly_s = daly_interval_s(mtbf_s, stall_s)
    chosen_s = parse_seconds(asked.interval, "--interval") if asked.interval else None
    found = goodput(model, chosen_s)
    headline = (
        f"{asked.gpus:,} accelerators fail every {show(mtbf_s, TIME)}; a checkpoint of {show(stall_s, TIME)} every "
        f"{show(found.interval_s, TIME)} leaves a goodput of {percent(found.goodput_fraction)}"
    )
    rows = (
        ("progress", percent(found.goodput_fraction)),
        ("checkpoints", percent(found.checkpoint_fraction)),
        ("work done twice", percent(found.replay_fraction)),
        ("restarts", percent(found.restart_fraction)),
    )
    intervals = (
        f"Best interval: {show(young_s, TIME)} to first order (Young), {show(daly_s, TIME)} to higher order (Daly). "
        "Failures are independent and each stops the whole run."
    )
    return Answer(
        result={
            "cluster_mtbf_s": mtbf_s,
            "checkpoint_stall_s": stall_s,
            "young_interval_s": young_s,
            "daly_interval_s": daly_s,
            "goodput": found,
        },
        inputs={
            "gpus": asked.gpus,
            "mtbf_hours": asked.mtbf_hours,
            "checkpoint": asked.checkpoint,
            "restart": asked.restart,
            "interval": asked.interval,
        },
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("time goes to | of the time>"), rows),
            Paragraph(intervals),
        ),
    )
