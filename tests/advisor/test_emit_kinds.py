"""Files that start own boards of several kinds: each board of the answer once, and a router whose weights are the
planned load."""

import dataclasses
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.catalog import engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.launch_options import check_command
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Bill, BillLine, Explanation, Launch, Layout, Machine, Option, Performance
from advisor.emit.formats import check_form, emit_files
from advisor.emit.plan import plan_of
from advisor.simulator.quantity import Quantity

Cli = Callable[[str], Any]
FORMATS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
SEEDS = range(int(os.environ.get("ADVISOR_QUESTIONS", "10")))
SCHEMAS = json.loads((Path(__file__).parent / "emitted_schemas.json").read_text())
TARGETS = json.loads((Path(__file__).parent / "target_schemas.json").read_text())
CHIPS = ("h100-sxm", "l40s", "a100-sxm-80gb", "rtx-pro-6000-server")
ADDRESS = r"server (\S+):(\d+) weight=(\d+);"


def part_of(
    chip: str, engine: str, tp: int, replicas: int, fraction: float, unit: int, origin: str
) -> Option:
    settings = LaunchSettings(tp=tp, weight_dtype="fp8", checkpoint_dtype="fp8", max_num_seqs=64, role="kind")
    settings = dataclasses.replace(settings, num_nodes=math.ceil(tp / unit))
    repository = f"./llama-{chip}" if origin == "quantise first" else "org/Llama"
    started = launch(engines.by_id(engine), repository, settings)
    checkpoint = ServedCheckpoint("org/Llama", "fp8", origin)  # type: ignore[arg-type]
    return Option(
        rank=1,
        role="kind",
        machine=Machine(chip, tp * replicas, unit, math.ceil(tp * replicas / unit)),
        layout=Layout(engine, None, "fp8", "bf16", tp, 1, 1, 1, 1, replicas, 64, 4096, 8192),
        offer=None,
        bill=Bill(1.0, 730.5, (BillLine("electricity", 730.5),)),
        performance=None,
        launch=Launch(started.command, started.argv, started.config, checkpoint),
        explanation=Explanation({"weight_bytes": 8e9}),
        share_fraction=fraction,
    )


def performance_at(rate: float) -> Performance:
    """Performance of which the writers read the load alone."""
    one = Quantity(rate, rate, rate, "modelled")
    return Performance(
        one, one, one, one, one, 1.0, {}, {}, {}, {}, 0.5, 8.0, 0.2, 0.9, "likely", "modelled", None, None
    )


def question(seed: int) -> Option:
    """Kinds as a search might return them, some of whose replicas hold several machines."""
    draw = random.Random(seed)
    chips = draw.sample(CHIPS, draw.choice((2, 3)))
    weights = [draw.uniform(0.02, 1.0) for _ in chips]
    parts = tuple(
        part_of(
            chip,
            draw.choice(("vllm", "sglang")),
            draw.choice((1, 2, 4, 8, 16)),
            draw.choice((1, 2, 5)),
            weight / sum(weights),
            8,
            draw.choice(("published", "quantise first")),
        )
        for chip, weight in zip(chips, weights, strict=True)
    )
    machine = dataclasses.replace(
        parts[-1].machine,
        accelerator="+".join(chips),
        num_accelerators=sum(part.machine.num_accelerators for part in parts),
        num_nodes=sum(part.machine.num_nodes for part in parts),
    )
    return dataclasses.replace(
        parts[-1],
        role="other",
        machine=machine,
        parts=parts,
        share_fraction=None,
        performance=performance_at(draw.uniform(0.1, 300.0)),
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", FORMATS)
def test_every_board_is_started_once_and_weights_are_the_planned_load(
    seed: int, form: str, tmp_path: Path
) -> None:
    option = question(seed)
    files = emit_files("llama", option, form)  # type: ignore[arg-type]
    assert files["README.md"].count("\n") == 3
    for name, content in files.items():
        if name.endswith((".sh", ".sbatch")):
            (tmp_path / name).write_text(content)
            subprocess.run(["bash", "-n", tmp_path / name], check=True)
    for part in option.parts:
        assert num_boards(files, part, form) == part.machine.num_accelerators
    are_weights_the_load(router_of(files, option, form, tmp_path), option, form)


def num_boards(files: Mapping[str, str], part: Option, form: str) -> int:
    """Number of boards of one kind that the files of a form start."""
    chip = part.machine.accelerator
    tp = part.replica_layout.tensor_parallel
    nodes = math.ceil(tp / part.machine.accelerators_per_node)
    if form == "k8s":
        documents = list(yaml.safe_load_all(files["plan.k8s.yaml"]))
        for one in documents:
            jsonschema.validate(one, (SCHEMAS["kubernetes"] | TARGETS)[one["kind"]])
        (found,) = (one for one in documents if one["metadata"]["name"] == f"llama-{chip}" and has_pods(one))
        template = found["spec"].get("leaderWorkerTemplate", found["spec"])
        pod = template.get("template", template.get("workerTemplate"))["spec"]
        (container,) = pod["containers"]
        check_command(part.replica_layout.engine, [word for word in container["command"] if "$(" not in word])
        assert "nodeSelector" in pod or f"nodes of {chip} only" in files["plan.k8s.yaml"]
        each = int(container["resources"]["limits"]["nvidia.com/gpu"])
        return int(found["spec"]["replicas"]) * int(template.get("size", 1)) * each
    if form == "skypilot":
        task = yaml.safe_load(files[f"{chip}.sky.yaml"])
        jsonschema.validate(task, SCHEMAS["skypilot"])
        each = int(task["resources"]["accelerators"].partition(":")[2])
        return int(task["service"]["replicas"]) * int(task.get("num_nodes", 1)) * each
    if form == "slurm":
        text = files[f"{chip}.sbatch"]
        last, each = (int(re.search(rf"{name}(\d+)\n", text)[1]) for name in ("array=0-", "gpus-per-node="))  # type: ignore[index]
        return (last + 1) * int(re.search(r"--nodes=(\d+)", text)[1]) * each  # type: ignore[index]
    if form == "compose":
        whole = yaml.safe_load(files[f"{chip}.compose.yaml"])
        jsonschema.validate(whole, SCHEMAS["compose"])
        ids = [
            service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
            for service in whole["services"].values()
        ]
        if nodes > 1:  # a service for the first machine, one for each further machine
            return len(ids[0]) * nodes * part.replica_layout.num_replicas
        assert len({each for one in ids for each in one}) == sum(map(len, ids))
        return tp * part.replica_layout.num_replicas if len(ids) * tp <= 8 else 0
    text = files[f"{chip}.sh"]
    if nodes > 1:
        assert "RANK:?" in text
        return tp * part.replica_layout.num_replicas
    on_host = int(re.search(r"_WORKERS:[-?](\d+)", text)[1])  # type: ignore[index]
    assert on_host == min(part.replica_layout.num_replicas, 8 // tp)
    return tp * part.replica_layout.num_replicas


def has_pods(document: Mapping[str, Any]) -> bool:
    return document["kind"] in ("Deployment", "LeaderWorkerSet")


def router_of(files: Mapping[str, str], option: Option, form: str, folder: Path) -> str:
    """Configuration of the router; what a script writes once the replicas have addresses is written."""
    if form == "k8s":
        documents = yaml.safe_load_all(files["plan.k8s.yaml"])
        return next(one["data"]["nginx.conf"] for one in documents if "nginx.conf" in one.get("data", {}))
    if form not in ("slurm", "skypilot"):
        return files["nginx.conf"]
    for part in option.parts:
        there = folder / "endpoints" / part.machine.accelerator
        there.mkdir(parents=True)
        for place in range(part.replica_layout.num_replicas):
            (there / str(place)).write_text(f"{part.machine.accelerator}-{place} 8001\n")
    (folder / "bin").mkdir()
    for name, body in (("nginx", "exit 0"), ("sky", 'echo "http://$4:8000"')):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / "bin" / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["bash", "router.sh"], cwd=folder, check=True, env={**os.environ, "PATH": path})
    return (folder / "nginx.conf").read_text()


def are_weights_the_load(conf: str, option: Option, form: str) -> None:
    assert "least_conn" not in conf
    servers = re.findall(ADDRESS, conf)
    assert len({(host, port) for host, port, _ in servers}) == len(servers)
    assert isinstance(option.performance, Performance)
    rate = option.performance.requests_per_s.value
    for part in option.parts:
        count = part.replica_layout.num_replicas
        chip = part.machine.accelerator
        mark = re.compile(rf"({chip}|{chip.upper().replace('-', '_')}_H)[-_\dA-Z]*$|llama-{chip}(-leader)?$")
        own = [int(weight) for host, _, weight in servers if mark.match(host)]
        assert len(own) == (1 if form in ("k8s", "skypilot") else count)
        assert part.share_fraction is not None
        assert sum(own) / 3600 == pytest.approx(rate * part.share_fraction, abs=len(own) * 0.5 / 3600 + 1e-9)
    total = sum(int(weight) for _, _, weight in servers)
    assert total / 3600 == pytest.approx(rate, abs=len(servers) * 0.5 / 3600 + 1e-9)


@pytest.mark.parametrize("form", ["dynamo", "llm-d", "kserve", "ray"])
def test_forms_without_weights_say_why_they_write_none(form: str) -> None:
    with pytest.raises(AdvisorError, match="writes equal replicas, or pools") as refused:
        emit_files("llama", question(1), form)  # type: ignore[arg-type]
    assert refused.value.why
    assert refused.value.fix == "--emit k8s"


def test_recipes_of_two_kinds_do_not_take_each_others_place() -> None:
    parts = [part_of(chip, "vllm", 1, 1, 0.5, 8, "quantise first") for chip in ("h100-sxm", "l40s")]
    option = dataclasses.replace(question(0), parts=tuple(parts))
    files = emit_files("llama", option, "command")
    recipes = {name: text for name, text in files.items() if name.endswith("quantise.sh")}
    assert len(recipes) == 2
    for part in parts:
        target = next(word for word in part.started.argv if word.startswith("./"))
        assert sum(shlex.quote(target) in text or target in text for text in recipes.values()) == 1
    assert all(f"bash {name}" in files["README.md"] for name in recipes)


def test_kinds_of_unlike_checkpoints_answer_under_one_name() -> None:
    """vLLM answers 404 to a request that names another model than it serves."""
    parts = [
        part_of("h100-sxm", "vllm", 1, 1, 0.5, 8, "published"),
        part_of("l40s", "sglang", 1, 1, 0.5, 8, "published"),
    ]
    option = dataclasses.replace(question(0), parts=tuple(parts))
    assert "served-model-name" not in "".join(emit_files("llama", option, "command").values())
    other = ServedCheckpoint("org/Llama-FP8", "fp8", "published")
    started = dataclasses.replace(parts[1].started, checkpoint=other)
    option = dataclasses.replace(option, parts=(parts[0], dataclasses.replace(parts[1], launch=started)))
    for form in FORMATS:
        files = emit_files("llama", option, form)  # type: ignore[arg-type]
        text = " ".join("".join(files.values()).replace("-\n", "").split())
        assert len(re.findall(r"--served-model-name (?:- )?llama\b", text)) == 2
        assert "requests name the model llama" in files["README.md"]


def test_names_of_kinds_differ_below_a_long_name_of_a_model() -> None:
    name = "a-model-whose-name-is-longer-than-what-one-deployment-of-kubernetes-may-have"
    documents = yaml.safe_load_all(emit_files(name, question(0), "k8s")["plan.k8s.yaml"])
    names = [one["metadata"]["name"] for one in documents if has_pods(one)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 63


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    text = emit_files("llama", question(0), "command")["nginx.conf"]
    (tmp_path / "nginx.conf").write_text(re.sub(r"server [A-Z]\S+:", "server 127.0.0.1:", text))
    command = ["nginx", "-t", "-c", tmp_path / "nginx.conf"]
    tested = subprocess.run(command, check=False, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr


def test_an_answer_with_boards_of_two_kinds_is_written(cli: Cli) -> None:
    own = "--own 2xl4,2xl40s --rate 6 --as-of 2026-11-20"
    run = cli(f"advisor recommend --model 8b --engine vllm --levers none --precision fp8 {own} --emit k8s")
    assert run.code == 0
    documents = list(yaml.safe_load_all(run.out.split("plan.k8s.yaml\n")[1].split("\nREADME.md\n")[0]))
    selected = {
        one["spec"]["template"]["spec"]["nodeSelector"]["nvidia.com/gpu.product"]: one["spec"]["replicas"]
        for one in documents
        if one["kind"] == "Deployment" and not one["metadata"]["name"].endswith("router")
    }
    assert selected == {"NVIDIA-L4": 1, "NVIDIA-L40S": 1}
    (conf,) = (one["data"]["nginx.conf"] for one in documents if one["kind"] == "ConfigMap")
    assert sum(int(weight) for _, _, weight in re.findall(ADDRESS, conf)) == pytest.approx(6 * 3600, abs=1)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
@pytest.mark.parametrize("paths", [(), (("sql", "/data/sql"),)])
def test_adapters_that_come_later_say_which_matrices_they_change(
    engine: str, paths: tuple[tuple[str, str], ...]
) -> None:
    """Both engines refuse to start if no adapter at the start tells it: SGLang 0.5.23, arg_groups/lora_hook.py;
    TensorRT-LLM, _torch/pyexecutor (lora_target_modules)."""
    settings = LaunchSettings(tp=1, adapters=(4, 16, 4), adapter_paths=paths)
    started = launch(engines.by_id(engine), "org/model", settings)
    if engine == "sglang":
        assert ("--lora-target-modules all" in " ".join(started.argv)) == (not paths)
        assert ("--lora-paths" in started.argv) == bool(paths)
    else:
        assert started.config["lora_config"]["lora_target_modules"]


@pytest.mark.parametrize(
    ("release", "needs"), [("0.33.0", True), ("0.28.0", True), ("0.27.1", False), ("", True)]
)
def test_a_format_outside_the_core_of_the_release_names_its_package(release: str, needs: bool) -> None:
    """vLLM 0.28.0 moved bitsandbytes into a package of its own."""
    one = part_of("h100-sxm", "vllm", 1, 1, 1.0, 8, "published")
    for dtype in ("nf4", "fp8"):
        layout = dataclasses.replace(one.replica_layout, weight_dtype=dtype, engine_version=release or None)
        plan = plan_of("llama", dataclasses.replace(one, layout=layout))
        assert any("pip install vllm-bnb-plugin" in line for line in plan.checks) == (
            needs and dtype == "nf4"
        )


@pytest.mark.parametrize("chip", ["tpu-v6e", "m4-max-40-core"])
@pytest.mark.parametrize("form", ["ray", "dynamo", "llm-d", "k8s", "docker"])
def test_a_refused_form_names_one_that_is_written(chip: str, form: str) -> None:
    one = part_of("h100-sxm", "vllm", 1, 1, 1.0, 8, "published")
    machine = dataclasses.replace(one.machine, accelerator=chip)
    plan = dataclasses.replace(plan_of("llama", one), option=dataclasses.replace(one, machine=machine))
    with pytest.raises(AdvisorError) as refused:
        check_form(plan, form)  # type: ignore[arg-type]
    assert refused.value.fix == "--emit command"
    check_form(plan, "command")
