"""Files that start replicas with which conversations stay: they parse, and the router knows each replica once."""

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
from advisor.decide.result import Option, OptionPart
from advisor.emit.fleet import fleet_plan
from advisor.emit.formats import emitted

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
    part = OptionPart(
        share="replica", accelerator="h100-sxm", accelerator_name="H100", num_accelerators=tp * count,
        num_replicas=count, tensor_parallel=tp, pipeline_parallel=1, expert_parallel=1, data_parallel=1,
        weight_dtype="fp8", kv_dtype="bf16", engine=engine, provider="somebody", sku="", region="", term="on_demand",
        usd_per_hour=1.0, accelerators_per_unit=unit, max_num_seqs=64, max_num_batched_tokens=4096,
        checkpoint=ServedCheckpoint("org/Llama", "fp8", "published"), memory={"weight_bytes": 8e9},
        levers={"sticky_router": True}, launch_command=started.command, launch_argv=started.argv,
        launch_config=started.config,
    )  # fmt: skip
    whole = {
        name: getattr(part, name)
        for name in OptionPart.__slots__
        if name not in ("share", "max_prompt_tokens")
    }
    return whole_option(whole)


def whole_option(values: dict[str, object]) -> Option:
    """An option as far as the writers read it."""
    option = object.__new__(Option)
    for name, value in {**values, "parts": ()}.items():
        object.__setattr__(option, name, value)
    return option


def told(files: Mapping[str, str], form: str) -> str:
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
    assert fleet.is_shared == (option.num_replicas * option.tensor_parallel <= option.accelerators_per_unit)
    for form in FORMATS:
        if form == "skypilot" and not fleet.is_shared:
            with pytest.raises(AdvisorError, match="no service of SkyPilot"):
                emitted("llama", option, form)
            continue
        files = emitted("llama", option, form)  # type: ignore[arg-type]
        assert files["README.md"].count("\n") == 3
        assert "X-S" in files["README.md"]
        text = " ".join("\n".join(files.values()).split())
        assert POLICIES[option.engine] in text
        for name, content in files.items():
            if name.endswith((".sh", ".sbatch")):
                (tmp_path / name).write_text(content)
                subprocess.run(["bash", "-n", tmp_path / name], check=True)
            elif name.endswith(".yaml"):
                assert list(yaml.safe_load_all(content))
        if form == "slurm":
            assert f"--array=0-{option.num_replicas - 1}\n" in files["replica.sbatch"]
            continue
        found = re.findall(r"http://([\w.-]+:\d+)", told(files, form))
        assert len(found) == len(set(found)) == option.num_replicas
        if form in ("command", "docker"):
            started = next(
                each
                for each in "\n".join(files.values()).splitlines()
                if shlex.join(option.launch_argv[5:]) in each
            )
            words = shlex.split(started.replace("&", ""))
            check_command(option.engine, ["started", *words[words.index(option.launch_argv[5]) :]])


def test_an_engine_without_a_router_for_conversations_is_refused() -> None:
    with pytest.raises(AdvisorError, match="no router") as refused:
        emitted("llama", question(0, "tensorrt-llm"), "compose")
    assert refused.value.fix
