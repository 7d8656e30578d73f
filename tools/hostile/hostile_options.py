"""Options of two pools or of sticky replicas with a local model of a hostile path, as a search might return them."""

import dataclasses
import math
import random
from typing import Final

from advisor.catalog import engines
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Bill, BillLine, Explanation, Launch, Layout, Machine, Option

_SHARES: Final = (("prefill", "decode"), ("short", "long"), ("replica",))
_CHIPS: Final = {"vllm": "h100-sxm", "sglang": "h200-sxm", "tensorrt-llm": "b200-sxm"}


def option_of_pools(path: str, draw: random.Random) -> Option:
    """Return pools whose workers load the model at a path, quantised first in a third of the cases."""
    engine = draw.choice(list(_CHIPS))
    shares = draw.choice(_SHARES if engine != "tensorrt-llm" else _SHARES[:2])
    is_shared = draw.random() < 0.5
    origin = draw.choice(("local", "local", "quantise first"))
    parts = tuple(_part(share, engine, path, origin, draw, is_shared=is_shared) for share in shares)
    if shares == ("replica",):
        return dataclasses.replace(parts[0], role="other", levers={"sticky_router": "yes"})
    count = sum(part.machine.num_accelerators for part in parts)
    nodes = 1 if is_shared else sum(part.machine.num_nodes for part in parts)
    machine = dataclasses.replace(parts[-1].machine, num_accelerators=count, num_nodes=nodes)
    return dataclasses.replace(parts[-1], role="other", machine=machine, parts=parts)


def _part(share: str, engine: str, path: str, origin: str, draw: random.Random, *, is_shared: bool) -> Option:
    tp = draw.choice((1, 2)) if is_shared else 4
    replicas = 2 if is_shared else draw.choice((1, 3))
    window = 6144 if share == "short" else 8192
    settings = LaunchSettings(
        tp=tp,
        weight_dtype="fp8",
        checkpoint_dtype="fp8",
        max_num_seqs=64,
        max_num_batched_tokens=4096,
        max_model_len=window,
        role=share if share in _SHARES[0] else "",
    )
    started = launch(engines.by_id(engine), "./model-fp8" if origin == "quantise first" else path, settings)
    unit = 8 if is_shared else tp
    return Option(
        rank=1,
        role=share,  # type: ignore[arg-type]
        machine=Machine(_CHIPS[engine], tp * replicas, unit, math.ceil(tp * replicas / unit)),
        layout=Layout(engine, None, "fp8", "bf16", tp, 1, 1, 1, 1, replicas, 64, 4096, window),
        offer=None,
        bill=Bill(1.0, 730.5, (BillLine("rent", 730.5),)),
        performance=None,
        launch=Launch(started.command, started.argv, started.config, ServedCheckpoint(path, "fp8", origin)),  # type: ignore[arg-type]
        explanation=Explanation({"weight_bytes": 8e9}),
        max_prompt_tokens=4096 if share == "short" else None,
    )
