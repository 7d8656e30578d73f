"""A predicted collective as an answer."""

from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import BINARY_SIZE, LEGEND, RATE, TIME, show, show_quantity
from advisor.simulator.collectives import Topology
from advisor.simulator.collectives.operations import Algorithm
from advisor.simulator.collectives.prediction import (
    SWEEP_BYTES,
    CollectivePrediction,
    Operation,
    crossovers,
    predict,
)
from advisor.simulator.collectives.topology import UsualNetwork


def collective_answer(
    operation: Operation,
    num_bytes: float,
    group: Topology,
    algorithm: Algorithm,
    *,
    gpu: str,
    note: str,
    network: UsualNetwork | None,
) -> Answer:
    """Return one collective on one group: the size asked for, then a sweep over sizes."""
    asked = predict(operation, num_bytes, group, algorithm=algorithm)
    sweep = [predict(operation, size, group, algorithm=algorithm) for size in SWEEP_BYTES]
    changes = crossovers(operation, group, algorithm=algorithm)
    where = f"{group.num_ranks} x {gpu}" + (f" in {group.num_nodes} nodes" if group.num_nodes > 1 else "")
    headline = (
        f"{operation} of {show(num_bytes, BINARY_SIZE)} on {where}: {show_quantity(asked.time_s, TIME)}, "
        f"{asked.algorithm}, bus bandwidth {show_quantity(asked.bus_bytes_per_s, RATE)}"
    )
    taken_over = [
        f"From {show(change.num_bytes, BINARY_SIZE)}, {change.faster} is faster than {change.slower}."
        for change in changes
    ]
    return Answer(
        result={
            "operation": operation,
            "num_bytes": num_bytes,
            "time_s": asked.time_s,
            "algorithm": asked.algorithm,
            "bus_bytes_per_s": asked.bus_bytes_per_s,
            "crossover": changes,
            "topology": group,
            "network": network,
            "curve": sweep,
        },
        inputs={
            "op": operation,
            "bytes": num_bytes,
            "gpu": gpu,
            "gpus": group.num_ranks,
            "nodes": group.num_nodes,
            "algorithm": algorithm,
        },
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("size> | time | algorithm | bus bandwidth"), tuple(_row(point) for point in sweep)),
            Paragraph("\n".join([*taken_over, LEGEND])),
        ),
        records="curve",
        notes=(note,) if note else (),
    )


def _row(point: CollectivePrediction) -> tuple[str, ...]:
    return (
        show(point.num_bytes, BINARY_SIZE),
        show_quantity(point.time_s, TIME),
        point.algorithm,
        show_quantity(point.bus_bytes_per_s, RATE),
    )
