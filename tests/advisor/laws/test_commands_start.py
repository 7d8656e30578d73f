"""Printed commands start what was priced, in every form: class, checkpoint, context window, every accelerator."""

import datetime
import random
import re
from typing import get_args

import pytest
import yaml

from advisor.catalog import engines, models
from advisor.catalog.architectures import class_support
from advisor.catalog.context_scaling import can_open
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.launch_options import check_command
from advisor.decide.option import Option
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic
from advisor.decide.starting import nodes_of_replica
from advisor.emit.formats import Format, emit_files

DAY = datetime.date(2026, 11, 20)
MODELS = (
    "llama-3.1-8b",
    "qwen3-32b",
    "gemma-2-9b",
    "phi-2",
    "falcon-7b",
    "gpt-j-6b",
    "smollm3-3b",
    "granite-4.0-h-small",
    "kimi-k2",
    "deepseek-v3",
    "llama-3.1-405b",
    "qwen3-30b-a3b",
)
CHIPS = ("h100-sxm", "h200-sxm", "b200-sxm", "l40s", "mi300x", "gb200")


def question(seed: int) -> Scenario:
    draw = random.Random(seed)
    model = models.by_id(MODELS[seed % len(MODELS)])
    window = model.max_context_tokens or 8192
    long = draw.random() < 0.3 and window > 30_000
    traffic = Traffic(
        mean_input_tokens=30_000 if long else min(900, window // 3),
        mean_output_tokens=200,
        rate_per_s=0.2 if long else draw.choice((0.2, 1.0, 4.0)),
    )
    size = "h200-sxm" if model.id in ("kimi-k2", "deepseek-v3", "llama-3.1-405b") else draw.choice(CHIPS)
    return Scenario(
        model=model.id,
        traffic=traffic,
        objectives=Objectives(ttft_p99_s=60.0, tpot_p99_s=0.5),
        constraints=Constraints(accelerators=(size,)),
        as_of=DAY,
        levers=(),
        screened_only=True,
        top=1,
    )


def first_option(scenario: Scenario) -> Option | None:
    """The first option of an answer; None if the question has none."""
    try:
        return recommend(scenario, whole=False).options[0]
    except InfeasibleError:
        return None


def files_of(model: str, option: Option, form: Format) -> dict[str, str]:
    """The files of a form; none if it is refused."""
    try:
        return emit_files(model, option, form)
    except AdvisorError:
        return {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_every_form_starts_what_was_priced(seed: int) -> None:
    scenario = question(seed)
    option = first_option(scenario)
    if option is None:
        return
    model = models.by_id(scenario.model)
    layout = option.replica_layout
    engine = engines.by_id(layout.engine)
    assert not class_support(engine, model).is_refused
    longest = scenario.traffic.longest_request_tokens
    assert can_open(engine, model, min(longest, model.max_context_tokens or longest))
    assert layout.max_model_len
    for form in get_args(Format):
        files = files_of(scenario.model, option, form)
        text = "\n".join(files.values())
        checkpoint = option.started.checkpoint
        assert checkpoint is not None
        if not files:
            continue
        if checkpoint.origin != "quantise first":
            assert checkpoint.repository in text, form
        assert re.search(
            rf"\b{layout.max_model_len}\b|\b{layout.max_model_len * (layout.max_num_seqs or 1)}\b", text
        )
        check_command(engine.id, option.started.argv)
    _check_machines(option)


def _check_machines(option: Option) -> None:
    """The printed command has a line for each machine of a replica, or one that starts all of them."""
    layout = option.replica_layout
    nodes = nodes_of_replica(layout.accelerators_per_replica, option.machine)
    flags = engines.by_id(layout.engine).flags
    lines = option.started.command.splitlines()
    if nodes == 1:
        assert len(lines) == 1
        return
    assert flags.nodes is not None
    assert len(lines) == (nodes if not flags.nodes.launcher else 1 + bool(option.started.config))
    assert layout.accelerators_per_replica % nodes == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"models": "qwen3-8b@6,qwen3-32b@1", "own": "4xh100-sxm", "engine": "vllm"},
        {"models": "8b@6,qwen3-4b@4,qwen3-14b@2", "own": "8xl40s", "engine": "sglang"},
        {"model": "8b", "own": "4xl40s", "rate": 12, "engine": "vllm"},
    ],
)
def test_replicas_on_a_box_have_accelerators_and_ports_of_their_own(asked: dict[str, object]) -> None:
    import advisor

    found = advisor.recommend(**asked, fast=True, emit="compose", as_of="2026-11-20").to_dict()
    devices = list[int]()
    ports = list[str]()
    for name, text in found["deployment"]["files"].items():
        if name.endswith("compose.yaml"):
            for service in yaml.safe_load(text)["services"].values():
                reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {})
                devices += (int(each) for one in reserved.get("devices", ()) for each in one["device_ids"])
                ports += (each.partition(":")[0] for each in service.get("ports", ()))
    assert len(set(devices)) == len(devices) == found["options"][0]["machine"]["num_accelerators"]
    assert len(set(ports)) == len(ports)
    assert max(devices) < int(str(asked["own"]).partition("x")[0])
