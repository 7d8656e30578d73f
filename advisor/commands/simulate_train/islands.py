"""Two unlike clusters under one job, as typed and as told."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from advisor.ask.together import Apart, OptionDependency, Rule, check_together
from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Calibration
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.decide.training.islands import Islands, IslandsFound
from advisor.decide.training.search import PlanFound
from advisor.render.numbers import TIME, digits, show
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster

_TOGETHER: Final[tuple[Rule, ...]] = (
    OptionDependency("--beside-gbps", "--beside", "--beside 256xa100", why="there is one cluster"),
    OptionDependency("--across", "--beside", "--beside 256xa100", why="there is one cluster"),
    OptionDependency("--beside", "--gpus", "--gpus 256", why="how many stand in the first cluster"),
    OptionDependency(
        "--beside", "--between-gbps", "--between-gbps 400", why="how fast the link between them is decides"
    ),
    *(
        Apart(
            "--beside",
            name,
            "sites are alike and far apart, what stands beside is unlike and near",
            "one of them",
        )
        for name in ("--sites", "--inner-steps")
    ),
)
_PART: Final = re.compile(r"\s*(\d{1,7})\s*[x×*]\s*(\S.*?)\s*")


def islands_of(
    values: Mapping[str, Any], first: TrainingCluster, calibration: Calibration | None
) -> tuple[Islands | None, str]:
    """Return the two clusters that are asked for, if any, and how the second's accelerator was understood.

    Raises: AdvisorError: a part is malformed or unknown, or lacks a size or the link.
    """
    check_together(values, _TOGETHER)
    if "beside" not in values:
        return None, ""
    text = str(values["beside"])
    match = _PART.fullmatch(text)
    if match is None or int(match[1]) < 1:
        raise AdvisorError(
            f"--beside '{text}' is no cluster",
            why="a number of accelerators and their name",
            fix="--beside 256xa100",
        )
    rate = float(values["between_gbps"]) * GIGA / BITS_PER_BYTE
    if not 0.0 < rate < math.inf:
        raise AdvisorError(
            f"{values['between_gbps']} Gb/s between two clusters",
            why="a link has a rate",
            fix="--between-gbps 400",
        )
    chosen = accelerators.get(match[2])
    network = float(values.get("beside_gbps", 0.0)) * GIGA / BITS_PER_BYTE
    stated = NodeNetwork(network) if network else None
    second = TrainingCluster(calibrated_accelerator(chosen.record, calibration), network=stated)
    return Islands((first, second), (int(values["gpus"]), int(match[1])), rate), chosen.note


def title_of(islands: Islands) -> str:
    """Return the title of two clusters: `512 accelerators (256 x h100-sxm beside 256 x a100-sxm-80gb)`."""
    parts = [
        f"{count} x {cluster.accelerator.id}"
        for count, cluster in zip(islands.counts, islands.clusters, strict=True)
    ]
    return f"{islands.num_accelerators} accelerators ({' beside '.join(parts)})"


def islands_words(islands: Islands, found: IslandsFound) -> str:
    """Return sentences on the work of each part, the traffic between them, and the gain of an uneven batch."""
    first, second = found.parts
    names = [cluster.accelerator.id for cluster in islands.clusters]
    rate = f"{digits(islands.bytes_per_s * BITS_PER_BYTE / GIGA)} Gb/s"
    if found.across == "pp":
        layers = found.stage_layers
        border = islands.counts[0] * len(layers) // islands.num_accelerators
        stages = "1 stage" if border == 1 else f"{border} stages"
        return (
            f"Stages on both sides: {sum(layers[:border])} layers in {stages} on {names[0]}, "
            f"{sum(layers[border:])} in {len(layers) - border} on {names[1]}; activations cross at {rate}, which adds "
            f"{show(found.found.breakdown_s['link'], TIME)}."
        )
    waits = show(_data_s(found.found), TIME)
    told = (
        f"Replicas on both sides: {show(first.step_s, TIME)} on the side of {names[0]}, {show(second.step_s, TIME)} on "
        f"that of {names[1]}; the batch is divided evenly, so the slower one sets the pace. Gradients cross at {rate}, "
        f"for which it waits {waits}."
    )
    if found.uneven is None:
        return told
    one, other, seconds = found.uneven
    return (
        f"{told} With {one} micro-batches a replica there and {other} here it would be {show(seconds, TIME)}: no "
        "framework tabulated here has an option for that."
    )


def _data_s(found: PlanFound) -> float:
    return found.breakdown_s["data_parallel"]


def islands_result(islands: Islands, found: IslandsFound) -> dict[str, object]:
    """Return fields of the answer."""
    return {
        "across": found.across,
        "between_bytes_per_s": islands.bytes_per_s,
        "parts": [
            {
                "accelerator": cluster.accelerator.id,
                "num_accelerators": count,
                "network_bytes_per_s": cluster.network.bytes_per_s
                if cluster.network
                else cluster.accelerator.scale_out_bytes_per_s,
                "step_time_s": part.step_s if found.across == "dp" else None,
                "fits": fits,
            }
            for cluster, count, part, fits in zip(
                islands.clusters, islands.counts, found.parts, found.fit, strict=True
            )
        ],
        "stage_layers": list(found.stage_layers) or None,
        "uneven": None
        if found.uneven is None
        else {"micro_batches": list(found.uneven[:2]), "step_time_s": found.uneven[2]},
    }


def islands_flags(found: IslandsFound) -> dict[str, Any]:
    """Return what launching needs to know of two parts: layers of stages, or that replicas stay whole.

    A layout of stages is written only where they are unlike.
    """
    sizes = found.stage_layers
    layout = f"E{'|'.join(f't*{size}' for size in sizes)}L" if len(set(sizes)) > 1 else ""
    apart = found.across == "dp" and found.found.plan.pipeline_parallel > 1
    return {"layout": layout, "replicas_apart": apart}
