"""Files that start replicas with which conversations stay: they parse, and the router knows each replica once."""

import math
import random
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from advisor.catalog import engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.launch_options import check_command
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Bill, BillLine, Explanation, Launch, Layout, Machine, Option
from advisor.emit.fleet import fleet_plan
from advisor.emit.formats import emit_files

FORMATS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
POLICIES = {"vllm": "--policy consistent_hash", "sglang": "--policy manual --assignment-mode min_load"}


def question(seed: int, engine: str = "") -> Option:
    """Replicas as a search might return them, that count on what earlier turns left in the cache."""
    draw = random.Random(seed)
    engine = engine or draw.choice(tuple(POLICIES))
    tp, count, unit = draw.choice(((1, 3, 8), (2, 4, 8), (1, 3, 1), (4, 2, 4), (8, 5, 8)))
    settings = LaunchSettings(
        tp=tp, weight_dtype="fp8", checkpoint_dtype="fp8", max_num_seqs=64, prefix_caching=True
    )
    started = launch(engines.by_id(engine), "org/Llama", settings)
    checkpoint = ServedCheckpoint("org/Llama", "fp8", "published")
    return Option(
        rank=1,
        role="other",
        machine=Machine("h100-sxm", tp * count, unit, math.ceil(tp * count / unit)),
        layout=Layout(engine, None, "fp8", "bf16", tp, 1, 1, 1, 1, count, 64, 4096, 8192),
        offer=None,
        bill=Bill(1.0, 730.5, (BillLine("rent", 730.5),)),
        performance=None,
        launch=Launch(started.command, started.argv, started.config, checkpoint),
        levers={"sticky_router": True},
        explanation=Explanation({"weight_bytes": 8e9}),
    )


def router_command(files: Mapping[str, str], form: str) -> str:
    """The router's command."""
    if form == "k8s":
        documents = list(yaml.safe_load_all(files["plan.k8s.yaml"]))
        (router,) = (one for one in documents if one["kind"] == "Deployment")
        return " ".join(router["spec"]["template"]["spec"]["containers"][0]["command"])
    if "compose.yaml" in files:
        return " ".join(yaml.safe_load(files["compose.yaml"])["services"]["router"]["command"])
    text = files.get("start.sh") or files["router.sh"]
    return next(line for line in text.splitlines() if line.startswith("exec"))


@pytest.mark.parametrize("seed", range(20))
def test_generated_replicas_in_every_format(seed: int, tmp_path: Path) -> None:
    option = question(seed)
    fleet = fleet_plan("llama", option)
    assert fleet.is_shared == (option.machine.num_nodes == 1)
    for form in FORMATS:
        if form == "skypilot" and not fleet.is_shared:
            with pytest.raises(AdvisorError, match="no service of SkyPilot"):
                emit_files("llama", option, form)
            continue
        files = emit_files("llama", option, form)  # type: ignore[arg-type]
        assert files["README.md"].count("\n") == 3
        assert "X-S" in files["README.md"]
        text = " ".join("\n".join(files.values()).split())
        assert POLICIES[option.layout.engine] in text
        for name, content in files.items():
            if name.endswith((".sh", ".sbatch")):
                (tmp_path / name).write_text(content)
                subprocess.run(["bash", "-n", tmp_path / name], check=True)
            elif name.endswith(".yaml"):
                assert list(yaml.safe_load_all(content))
        if form == "slurm":
            assert f"--array=0-{option.layout.num_replicas - 1}\n" in files["replica.sbatch"]
            continue
        found = re.findall(r"http://([\w.-]+:\d+)", router_command(files, form))
        assert len(found) == len(set(found)) == option.layout.num_replicas
        if form in ("command", "docker"):
            started = next(
                each
                for each in "\n".join(files.values()).splitlines()
                if shlex.join(option.started.argv[5:]) in each
            )
            words = shlex.split(started.replace("&", ""))
            check_command(option.layout.engine, ["started", *words[words.index(option.started.argv[5]) :]])


def test_an_engine_without_a_router_for_conversations_is_refused() -> None:
    with pytest.raises(AdvisorError, match="no router") as refused:
        emit_files("llama", question(0, "tensorrt-llm"), "compose")
    assert refused.value.fix
