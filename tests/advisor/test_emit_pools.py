"""Files that start two unlike parts, pools of prompts and answers or of short and long prompts: they parse,
options are the release's, every worker has its own place and the router knows each once."""

import dataclasses
import json
import math
import os
import random
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.catalog import accelerators, engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.launch_options import check_command
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Bill, BillLine, Explanation, Launch, Layout, Machine, Option
from advisor.emit.fleet import fleet_plan
from advisor.emit.formats import emit_files
from advisor.emit.operators import engine_arguments

FORMATS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
SHARES = ("prefill", "decode")
BY_LENGTH = ("short", "long")
WINDOWS = {"short": 6144}
SEEDS = range(int(os.environ.get("ADVISOR_QUESTIONS", "20")))
TARGETS = json.loads((Path(__file__).parent / "target_schemas.json").read_text())
SCHEMAS = json.loads((Path(__file__).parent / "emitted_schemas.json").read_text())


def part_of(share: str, engine: str, chip: str, tp: int, replicas: int, unit: int, origin: str) -> Option:
    settings = LaunchSettings(
        tp=tp,
        weight_dtype="fp8",
        checkpoint_dtype="fp8",
        max_num_seqs=64,
        max_num_batched_tokens=4096,
        max_model_len=WINDOWS.get(share, 8192),
        role=share,
    )
    repository = "./llama-quantised" if origin == "quantise first" else "org/Llama"
    started = launch(engines.by_id(engine), repository, settings)
    checkpoint = ServedCheckpoint("org/Llama", "fp8", origin)  # type: ignore[arg-type]
    return Option(
        rank=1,
        role=share,  # type: ignore[arg-type]
        machine=Machine(chip, tp * replicas, unit, math.ceil(tp * replicas / unit)),
        layout=Layout(
            engine, None, "fp8", "bf16", tp, 1, 1, 1, 1, replicas, 64, 4096, WINDOWS.get(share, 8192)
        ),
        offer=None,
        bill=Bill(1.0, 730.5, (BillLine("rent", 730.5),)),
        performance=None,
        launch=Launch(started.command, started.argv, started.config, checkpoint),
        explanation=Explanation({"weight_bytes": 8e9}),
        max_prompt_tokens=4096 if share == "short" else None,
    )


def whole_of(parts: tuple[Option, ...], *, is_shared: bool) -> Option:
    """An option of pools, as far as the writers read it."""
    count = sum(part.machine.num_accelerators for part in parts)
    nodes = 1 if is_shared else sum(part.machine.num_nodes for part in parts)
    machine = dataclasses.replace(parts[-1].machine, num_accelerators=count, num_nodes=nodes)
    return dataclasses.replace(parts[-1], role="other", machine=machine, parts=parts)


def question(seed: int) -> Option:
    """Pools as a search might return them: engine, chip, layouts and numbers drawn at random."""
    draw = random.Random(seed)
    engine, chip = draw.choice(
        [("vllm", "h100-sxm"), ("vllm", "mi300x"), ("sglang", "h200-sxm"), ("tensorrt-llm", "b200-sxm")]
    )
    shares = SHARES if seed % 4 < 2 else BY_LENGTH
    origin = draw.choice(("published", "pattern", "quantise first"))
    is_shared = seed % 2 == 0
    sizes = (
        (draw.choice((1, 2)), draw.choice((1, 2)))
        if is_shared
        else (draw.choice((1, 4)), draw.choice((2, 8)))
    )
    counts = (
        (draw.choice((1, 2)), draw.choice((1, 2)))
        if is_shared
        else (draw.choice((3, 9)), draw.choice((1, 5)))
    )
    units = (8, 8) if is_shared else sizes
    parts = tuple(
        part_of(share, engine, chip, tp, count, unit, origin)
        for share, tp, count, unit in zip(shares, sizes, counts, units, strict=True)
    )
    return whole_of(parts, is_shared=is_shared)


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_pools_in_every_format(seed: int, tmp_path: Path) -> None:
    option = question(seed)
    fleet = fleet_plan("llama", option)
    for form in FORMATS:
        if form == "skypilot" and not fleet.is_shared and fleet.longest_short is None:
            with pytest.raises(AdvisorError, match="no service of SkyPilot"):
                emit_files("llama", option, form)
            continue
        files = emit_files("llama", option, form)  # type: ignore[arg-type]
        assert files["README.md"].count("\n") == 3
        for part in option.parts if option.parts[0].started.config else ():
            assert yaml.safe_load(files[f"{part.role}.engine.yaml"]) == part.started.config
        for name, content in files.items():
            if name.endswith((".sh", ".sbatch")):
                (tmp_path / name).write_text(content)
                subprocess.run(["bash", "-n", tmp_path / name], check=True)
        if form in ("compose", "k8s", "skypilot"):
            in_yaml(files, option, form)
        else:
            in_scripts(files, option, form)


@pytest.mark.parametrize("form", ["kserve", "ray"])
@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed % 4 < 2])
def test_pods_of_kserve_and_pools_of_ray_hold_each_role_once(seed: int, form: str) -> None:
    """KServe's script reads arguments again as a shell does; Ray tells its servers their addresses for caches."""
    option = question(seed)
    first = option.parts[0]
    vendor = accelerators.by_id(first.machine.accelerator).vendor
    is_able = first.layout.engine == "vllm" and not first.started.checkpoint.is_made_first
    if not is_able or (form == "ray" and vendor != "nvidia"):
        with pytest.raises(AdvisorError) as refused:
            emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
        assert refused.value.fix
        return
    files = emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
    document = yaml.safe_load(files[f"plan.{form}.yaml"])
    jsonschema.validate(document, TARGETS[document["kind"]])
    found = in_llm_service(document) if form == "kserve" else in_ray(document)
    for part in option.parts:
        replicas, accelerators_each, words = found[part.role]
        assert replicas == part.layout.num_replicas
        assert accelerators_each >= part.layout.tensor_parallel
        assert (
            words.items() >= {"tensor_parallel_size": part.layout.tensor_parallel, "max_num_seqs": 64}.items()
        )
        role = {"prefill": "kv_producer", "decode": "kv_consumer"}[part.role]
        assert words["kv_transfer_config"] == {"kv_connector": "NixlConnector", "kv_role": role}


def test_workers_of_kserve_on_several_machines_are_groups_of_pods() -> None:
    """Pods that decode answer behind the sidecar of KServe's template, at its port."""
    parts = (
        part_of("prefill", "vllm", "h100-sxm", 8, 2, 8, "published"),
        part_of("decode", "vllm", "h100-sxm", 16, 3, 8, "published"),
    )
    files = emit_files("llama-3.1-8b", whole_of(parts, is_shared=False), "kserve")
    document = yaml.safe_load(files["plan.kserve.yaml"])
    jsonschema.validate(document, TARGETS[document["kind"]])
    spec = document["spec"]
    assert spec["parallelism"] == {"data": 2, "dataLocal": 1}
    assert "worker" not in spec["prefill"]
    gpus = [
        pods["replicas"] * machines * int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        for pods, machines, pod in (
            (spec["prefill"], 1, spec["prefill"]["template"]),
            (spec, 2, spec["template"]),
            (spec, 2, spec["worker"]),
        )
    ]
    assert gpus == [16, 48, 48]
    for pod in (spec["template"], spec["worker"]):
        assert "--port 8001" in pod["containers"][0]["command"][-1]


def in_llm_service(document: dict[str, Any]) -> dict[str, tuple[int, int, dict[str, Any]]]:
    """Replicas, accelerators of each and arguments, by role; the model and the port are KServe's to say."""
    spec = document["spec"]
    assert spec["model"]["uri"] == f"hf://{spec['model']['name']}" == "hf://org/Llama"
    found = {}
    for role, pods in (("decode", spec), ("prefill", spec["prefill"])):
        (container,) = pods["template"]["containers"]
        words = shlex.split(" ".join(container["args"]))
        check_command("vllm", ["vllm", *words])
        assert not {"--port", "--host", "--served-model-name", "org/Llama"} & set(words)
        (count,) = (
            value for name, value in container["resources"]["limits"].items() if name.endswith("/gpu")
        )
        names = {each["name"] for each in container["env"]}
        assert {"POD_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST"} <= names
        found[role] = (pods["replicas"], int(count), engine_arguments(words))
    return found


def in_ray(document: dict[str, Any]) -> dict[str, tuple[int, int, dict[str, Any]]]:
    """Replicas, accelerators of a worker group over those, and arguments, by role."""
    (application,) = yaml.safe_load(document["spec"]["serveConfigV2"])["applications"]
    assert application["import_path"] == "ray.serve.llm:build_pd_openai_app"
    groups = {each["groupName"]: each for each in document["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
    found = {}
    for role, group in groups.items():
        config = application["args"][f"{role}_config"]
        (container,) = group["template"]["spec"]["containers"]
        count = int(container["resources"]["limits"]["nvidia.com/gpu"]) * group["replicas"]
        replicas = config["deployment_config"]["num_replicas"]
        found[role] = (replicas, count // replicas, config["engine_kwargs"])
    return found


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed % 4 < 2])
def test_dynamo_has_workers_for_each_role_and_no_other_pools(seed: int) -> None:
    option = question(seed)
    first = option.parts[0]
    vendor = accelerators.by_id(first.machine.accelerator).vendor
    if vendor != "nvidia" or first.started.checkpoint.is_made_first:
        with pytest.raises(AdvisorError):
            emit_files("llama-3.1-8b", option, "dynamo")
        return
    files = emit_files("llama-3.1-8b", option, "dynamo")
    graph = yaml.safe_load(files["plan.dynamo.yaml"])
    jsonschema.validate(graph, TARGETS["DynamoGraphDeployment"])
    services = graph["spec"]["services"]
    assert set(services) == {"Frontend", "PrefillWorker", "DecodeWorker"}
    for part in option.parts:
        worker = services[f"{part.role.capitalize()}Worker"]
        words = worker["extraPodSpec"]["mainContainer"]["args"]
        assert words[words.index("--disaggregation-mode") + 1] == worker["subComponentType"] == part.role
        assert words.count("--disaggregation-mode") == 1
        assert worker["replicas"] == part.layout.num_replicas
        assert int(worker["resources"]["limits"]["gpu"]) == part.layout.tensor_parallel
    assert "the Dynamo operator" in files["README.md"]
    lengths = question(2 if seed % 2 == 0 else 3)
    with pytest.raises(AdvisorError, match="writes equal replicas, or pools"):
        emit_files("llama-3.1-8b", lengths, "dynamo")


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed % 4 < 2])
def test_llmd_has_pods_for_each_role_and_a_sidecar_before_those_that_decode(seed: int) -> None:
    """The sidecar listens at the port of requests and asks prefill pods for caches at their addresses."""
    option = question(seed)
    first = option.parts[0]
    vendor = accelerators.by_id(first.machine.accelerator).vendor
    if first.layout.engine != "vllm" or vendor != "nvidia" or first.started.checkpoint.is_made_first:
        with pytest.raises(AdvisorError):
            emit_files("llama-3.1-8b", option, "llm-d")
        return
    values = yaml.safe_load(emit_files("llama-3.1-8b", option, "llm-d")["values.yaml"])
    ports = {"decode": values["routing"]["proxy"]["targetPort"], "prefill": values["routing"]["servicePort"]}
    assert values["routing"]["proxy"]["enabled"]
    assert ports["decode"] != ports["prefill"]
    for part in option.parts:
        pods = values[part.role]
        (container,) = pods["containers"]
        words = [*container["command"], *container["args"]]
        assert pods["create"]
        assert pods["replicas"] == part.layout.num_replicas
        assert words[words.index("--port") + 1] == str(ports[part.role])
        assert container["readinessProbe"]["httpGet"]["port"] == ports[part.role]
        assert container["ports"][0]["containerPort"] == ports[part.role]
        assert "--kv-transfer-config" in words
        named = {each["name"]: each for each in container["env"]}
        assert named["VLLM_NIXL_SIDE_CHANNEL_HOST"]["value"] == "$(POD_IP)"
        assert int(container["resources"]["limits"]["nvidia.com/gpu"]) == part.layout.tensor_parallel
        check_command("vllm", ["vllm", *words[2:]])
    lengths = question(2 if seed % 2 == 0 else 3)
    with pytest.raises(AdvisorError, match="writes equal replicas, or pools"):
        emit_files("llama-3.1-8b", lengths, "llm-d")


def in_scripts(files: Mapping[str, str], option: Option, form: str) -> None:
    text = "\n".join(content for name, content in files.items() if name.endswith((".sh", ".sbatch")))
    for part in option.parts:
        rest = shlex.join(part.started.argv[5:])
        words = shlex.split(next(line for line in text.splitlines() if rest in line).replace("&", ""))
        begin = words.index(part.started.argv[5])
        check_command(part.layout.engine, ["started", *words[begin:]])
        assert {str(part.layout.tensor_parallel), str(WINDOWS.get(part.role, 8192))} <= set(
            words[begin - 2 :]
        )
        if form == "slurm":
            assert f"--array=0-{part.layout.num_replicas - 1}\n" in files[f"{part.role}.sbatch"]
            assert f"--gpus-per-node={part.layout.tensor_parallel}\n" in files[f"{part.role}.sbatch"]
            continue
        number = re.search(rf"{part.role.upper()}_WORKERS:[-?](\d+)", text)
        assert number
        on_host = (
            part.layout.num_replicas
            if "start.sh" in files
            else min(
                part.layout.num_replicas, part.machine.accelerators_per_node // part.layout.tensor_parallel
            )
        )
        assert int(number.group(1)) == on_host
    if form != "slurm":
        known_once(files, option)
    elif option.parts[0].role == "short":
        written = slurm_router(files, option)
        assert len(re.findall(r"server node\d+:\d+;", written)) == sum(
            p.layout.num_replicas for p in option.parts
        )
        assert by_length(written)


def slurm_router(files: Mapping[str, str], option: Option) -> str:
    """Lines that router.sh writes for nginx once the workers have left their addresses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in option.parts:
            (folder / "endpoints" / part.role).mkdir(parents=True)
            for place in range(part.layout.num_replicas):
                (folder / "endpoints" / part.role / str(place)).write_text(f"node{place} {9000 + place}\n")
        (folder / "bin").mkdir()
        (folder / "bin" / "nginx").write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin" / "nginx").chmod(0o755)
        (folder / "router.sh").write_text(files["router.sh"])
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        subprocess.run(["bash", "router.sh"], cwd=folder, check=True, env={**os.environ, "PATH": path})
        return (folder / "nginx.conf").read_text()


def by_length(conf: str) -> bool:
    """Whether requests of up to 4 096 tokens, 16 000 bytes, go to the first pool, longer ones to the other."""
    (expression,) = re.findall(r'"~(.*)" short;', conf)
    assert "default long;" in conf
    assert "proxy_pass http://$pool;" in conf
    assert "error_page 400 = @long;" in conf
    sizes = (0, 9, 15_999, 16_000, 16_001, 99_999, 100_000, 1_000_000)
    return [bool(re.match(expression, str(size))) for size in sizes] == [size < 16_000 for size in sizes]


def known_once(files: Mapping[str, str], option: Option) -> None:
    """Addresses of the router are as many as workers, and no two are the same."""
    if option.parts[0].role == "short":
        assert by_length(files["nginx.conf"])
    text = (
        files.get("router.yaml")
        or files.get("nginx.conf")
        or next(
            line
            for name in ("start.sh", "router.sh")
            for line in files.get(name, "").splitlines()
            if line.startswith("exec")
        )
    )
    found = re.findall(r"(?:localhost|[A-Z]+_HOST_\d+):\d+", text)
    assert len(found) == len(set(found)) == sum(part.layout.num_replicas for part in option.parts)


def in_yaml(files: Mapping[str, str], option: Option, form: str) -> None:
    if form == "skypilot" and "service.sky.yaml" not in files:
        for part in option.parts:
            task = yaml.safe_load(files[f"{part.role}.sky.yaml"])
            jsonschema.validate(task, SCHEMAS["skypilot"])
            assert task["service"]["replicas"] == part.layout.num_replicas
            assert task["resources"]["accelerators"].endswith(f":{part.layout.tensor_parallel}")
            assert f"--endpoint {task['name']})" in files["router.sh"]
        return
    if form == "skypilot":
        task = yaml.safe_load(files["service.sky.yaml"])
        jsonschema.validate(task, SCHEMAS["skypilot"])
        total = sum(part.layout.num_replicas * part.layout.tensor_parallel for part in option.parts)
        assert task["resources"]["accelerators"].endswith(f":{total}")
        assert set(task["file_mounts"]) >= {"/plan/start.sh"}
        return
    if form == "k8s":
        in_kubernetes(list(yaml.safe_load_all(files["plan.k8s.yaml"])), option)
        return
    services: dict[str, Any] = {}
    for name, content in files.items():
        if name.endswith("compose.yaml"):
            whole = yaml.safe_load(content)
            jsonschema.validate(whole, SCHEMAS["compose"])
            services |= whole["services"]
    workers = {name: one for name, one in services.items() if name != "router"}
    devices = []
    ports = []
    for name, one in workers.items():
        part = next(each for each in option.parts if name.startswith(each.role))
        words = [*one["entrypoint"], *one["command"]]
        check_command(part.layout.engine, words)
        ports.append((part.role, words[words.index("--port") + 1]))
        found = one["deploy"]["resources"].get("reservations", {}).get("devices", [{}])[0].get("device_ids")
        mine = found or one["environment"]["HIP_VISIBLE_DEVICES"].split(",")
        assert len(mine) == part.layout.tensor_parallel
        devices += [(part.role if "router" not in services else "", each) for each in mine]
    assert len(set(devices)) == len(devices)
    assert len(set(ports)) == len(ports)
    if "router" in services:
        assert len(workers) == sum(part.layout.num_replicas for part in option.parts)
        assert set(services["router"]["depends_on"]) == set(workers)
    else:
        known_once(files, option)


def in_kubernetes(documents: list[dict[str, Any]], option: Option) -> None:
    for document in documents:
        jsonschema.validate(document, SCHEMAS["kubernetes"][document["kind"]])
    is_by_length = option.parts[0].role == "short"
    names = {
        one["metadata"]["name"]: one for one in documents if one["kind"] in ("StatefulSet", "Deployment")
    }
    sets = {name: one for name, one in names.items() if not name.endswith("-router")}
    assert {one["kind"] for one in sets.values()} == {"Deployment" if is_by_length else "StatefulSet"}
    for part in option.parts:
        (found,) = (one for name, one in sets.items() if name.endswith(part.role))
        (container,) = found["spec"]["template"]["spec"]["containers"]
        check_command(part.layout.engine, container["command"])
        assert found["spec"]["replicas"] == part.layout.num_replicas
        limits = container["resources"]["limits"]
        assert str(part.layout.tensor_parallel) in {
            count for name, count in limits.items() if name.endswith("/gpu")
        }
    (router,) = (one for name, one in names.items() if name.endswith("-router"))
    configs = " ".join(
        text for one in documents if one["kind"] == "ConfigMap" for text in one["data"].values()
    )
    told = " ".join(router["spec"]["template"]["spec"]["containers"][0]["command"]) + configs
    if is_by_length:
        assert all(f"server {name}:8000;" in told for name in sets)
        assert by_length(configs)
        return
    for name, one in sets.items():
        assert all(f"{name}-{place}.{name}:8000" in told for place in range(one["spec"]["replicas"]))
        assert f"{name}-{one['spec']['replicas']}." not in told


def test_pools_of_an_engine_without_a_router_are_refused() -> None:
    option = question(0)
    other = [
        dataclasses.replace(
            part,
            layout=dataclasses.replace(part.layout, engine="lmdeploy"),
            launch=dataclasses.replace(part.started, argv=("lmdeploy",), config={}),
        )
        for part in option.parts
    ]
    with pytest.raises(AdvisorError, match="no router") as refused:
        emit_files("llama", whole_of(tuple(other), is_shared=True), "command")
    assert refused.value.fix


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shares", [SHARES, BY_LENGTH])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("sizes", [(16, 16), (8, 16), (32, 8)])
def test_workers_of_several_machines_in_every_format(
    form: str,
    shares: tuple[str, str],
    engine: str,
    sizes: tuple[int, int],
    tmp_path: Path,
    unset_in_compose: Callable[[Mapping[str, str]], list[str]],
) -> None:
    counts = (2, 1)
    parts = tuple(
        part_of(share, engine, "h100-sxm", tp, count, 8, "published")
        for share, tp, count in zip(shares, sizes, counts, strict=True)
    )
    option = whole_of(parts, is_shared=False)
    if form == "skypilot" and shares == SHARES:
        with pytest.raises(AdvisorError, match="no service of SkyPilot"):
            emit_files("big", option, form)
        return
    files = emit_files("big", option, form)  # type: ignore[arg-type]
    assert files["README.md"].count("\n") == 3
    assert form != "compose" or not unset_in_compose(files)
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            (tmp_path / name).write_text(text)
            subprocess.run(["bash", "-n", tmp_path / name], check=True)
    everything = "\n".join(files.values())
    for share, tp, count in zip(shares, sizes, counts, strict=True):
        nodes = tp // 8
        own = "\n".join(text for name, text in files.items() if share in name) or everything
        assert (
            (nodes == 1)
            or f"--nnodes {nodes}" in own
            or f"- --nnodes\n          - '{nodes}'" in own
            or (f"- --nnodes\n    - '{nodes}'" in own)
        ), own
        if form == "slurm":
            assert f"#SBATCH --nodes={nodes}\n" in files[f"{share}.sbatch"]
            assert f"--array=0-{count - 1}" in files[f"{share}.sbatch"]
        elif form == "compose":
            services = yaml.safe_load(files[f"{share}.compose.yaml"])["services"]
            assert (set(services) == {"head", "worker"}) == (nodes > 1)
            ids = [
                len(one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"])
                for one in services.values()
            ]
            assert set(ids) == {8}
        elif form == "k8s":
            sets = [
                one
                for one in yaml.safe_load_all(files["plan.k8s.yaml"])
                if one["metadata"]["name"].endswith(share)
                and one["kind"] in ("LeaderWorkerSet", "StatefulSet", "Deployment")
            ]
            (one,) = sets
            assert one["spec"]["replicas"] == count
            if nodes > 1:
                assert one["spec"]["leaderWorkerTemplate"]["size"] == nodes
                named = {
                    document["metadata"]["name"]
                    for document in yaml.safe_load_all(files["plan.k8s.yaml"])
                    if document["kind"] == "Service"
                }
                assert one["metadata"]["name"] not in named, "the controller makes the Service of that name"
        elif form == "skypilot":
            assert yaml.safe_load(files[f"{share}.sky.yaml"]).get("num_nodes", 1) == nodes
        else:
            asks = "HEAD:?" in files[f"{share}.sh"]
            assert asks == (nodes > 1)
        for place in range(1, count + 1):
            host = f"{share.upper()}_{'HEAD' if nodes > 1 else 'HOST'}_{place}"
            if form in ("command", "docker"):
                assert len(re.findall(rf"\b{host}:\d+", everything)) == 1


def test_pools_over_machines_are_refused_where_no_way_is_known() -> None:
    parts = tuple(part_of(share, "tensorrt-llm", "h100-sxm", 16, 1, 8, "published") for share in SHARES)
    with pytest.raises(AdvisorError, match="several machines") as refused:
        fleet_plan("big", whole_of(parts, is_shared=False))
    assert "--engine sglang" in refused.value.fix
