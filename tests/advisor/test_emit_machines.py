"""Replicas on several machines in every form: each machine has its process, rank and address, each GPU counts once."""

import copy
import dataclasses
import json
import random
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.catalog import engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import LaunchSettings, launch, node_words
from advisor.catalog.launch_options import check_command
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Launch, Machine, Option
from advisor.emit.formats import emit_files

FORMS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
SCHEMAS = json.loads((Path(__file__).parent / "target_schemas.json").read_text())
BASIC = json.loads((Path(__file__).parent / "emitted_schemas.json").read_text())
SPANNING = ("vllm", "sglang", "tensorrt-llm")


def spanning(base: Option, seed: int) -> tuple[Option, int]:
    """An option whose replicas hold several machines each, and their number."""
    draw = random.Random(seed)
    name = draw.choice(SPANNING)
    chip, node = draw.choice([("h100-sxm", 8), ("b200-sxm", 8), ("h200-sxm", 8), ("gb200", 4)])
    nodes = draw.choice((2, 2, 3, 4))
    dp = draw.choice((1, 1, node * nodes))
    tp, pp = (1, 1) if dp > 1 else draw.choice(((node, nodes), (node * nodes, 1)))
    replicas = draw.choice((1, 2, 3))
    engine = engines.by_id(name)
    settings = LaunchSettings(
        tp=tp, pp=pp, dp=dp, ep=dp, max_num_seqs=256, max_num_batched_tokens=4096, num_nodes=nodes
    )
    model = draw.choice(("org/Big Model's 400B", "deepseek-ai/DeepSeek-V3", "./local weights"))
    started = launch(engine, model, settings)
    total = node * nodes * replicas
    local = "quantise first" if model.startswith("./") else "published"
    option = dataclasses.replace(
        base,
        machine=Machine(chip, total, node, total // node),
        layout=dataclasses.replace(
            base.layout,
            engine=name,
            tensor_parallel=tp,
            pipeline_parallel=pp,
            data_parallel=dp,
            num_replicas=replicas,
        ),
        levers={},
        launch=Launch(
            started.command,
            started.argv,
            started.config,
            ServedCheckpoint("org/Base", "bf16", local),  # type: ignore[arg-type]
        ),
    )
    return option, nodes


def words_of_rank(option: Option, nodes: int, rank: int, head: str) -> list[str]:
    per_node = option.machine.accelerators_per_node
    every, workers = node_words(
        engines.by_id(option.layout.engine), nodes, per_node, rank=str(rank), head=head
    )
    return shlex.split(f"{every} {workers if rank else ''}")


def run(script: str, folder: Path, **env: str) -> list[list[str]]:
    """The commands that a script would start, with the programs replaced by ones that tell their words."""
    bins = folder / "bin"
    bins.mkdir(exist_ok=True)
    told = folder / "told"
    told.unlink(missing_ok=True)
    for name in ("vllm", "python", "docker", "mpirun", "srun"):
        stub = f'#!/usr/bin/env bash\nprintf "%s\\0" {name} "$@" >> "{told}"; printf "\\n" >> "{told}"\n'
        if name == "srun":
            stub = "#!/usr/bin/env bash\nfor ((SLURM_PROCID = 0; SLURM_PROCID < NODES; SLURM_PROCID++)); do\n"
            stub += "export SLURM_PROCID; [[ $1 == --cpus-per-task=[1-9]* ]] && shift\n"
            stub += '[[ $1 == --mpi* ]] && { shift; "$@"; break; }; "$@"; done\n'
        (bins / name).write_text(stub)
        (bins / name).chmod(0o755)
    (bins / "scontrol").write_text("#!/usr/bin/env bash\nprintf 'node-a\\nnode-b\\n'\n")
    (bins / "trtllm-llmapi-launch").write_text(
        f'#!/usr/bin/env bash\nprintf "%s\\0" "$@" >> "{told}"; printf "\\n" >> "{told}"\n'
    )
    for name in ("scontrol", "trtllm-llmapi-launch"):
        (bins / name).chmod(0o755)
    (folder / "script").write_text(script)
    path = f"{bins}:/usr/bin:/bin"
    subprocess.run(["bash", "script"], cwd=folder, check=True, env={"PATH": path, "HOME": str(folder), **env})
    return [line.split("\0")[:-1] for line in told.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(40))
def test_every_form_starts_each_machine_with_its_rank(
    base_option: Option,
    seed: int,
    tmp_path: Path,
    unset_in_compose: Callable[[dict[str, str]], list[str]],
) -> None:
    option, nodes = spanning(base_option, seed)
    engine = engines.by_id(option.layout.engine)
    is_mpi = engine.flags.nodes is not None and bool(engine.flags.nodes.launcher)
    argv = list(option.started.argv)
    node = option.machine.accelerators_per_node
    for form in FORMS:
        if is_mpi and form in ("docker", "compose", "k8s", "skypilot"):
            with pytest.raises(AdvisorError, match="starts no replica") as refused:
                emit_files("big", option, form)  # type: ignore[arg-type]
            assert refused.value.fix.startswith("--emit slurm")
            continue
        files = emit_files("big", option, form)  # type: ignore[arg-type]
        assert files["README.md"].count("\n") == 3
        assert form != "compose" or not unset_in_compose(files)
        folder = tmp_path / form
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
            if name.endswith((".sh", ".sbatch")):
                subprocess.run(["bash", "-n", folder / name], check=True)
        check = {
            "command": _check_command,
            "docker": _check_docker,
            "compose": _check_compose,
            "k8s": _check_kubernetes,
            "skypilot": _check_skypilot,
            "slurm": _check_slurm,
        }[form]
        commands = check(files, folder, option, nodes, argv)
        for words in commands:
            check_command(engine.id, words)
        if not is_mpi:
            assert len(commands) == nodes
            assert nodes * node == option.layout.accelerators_per_replica


@pytest.mark.parametrize("form", ["llm-d", "kserve", "ray"])
def test_the_way_out_of_a_stack_without_the_engine_starts_the_replica(base_option: Option, form: str) -> None:
    found = (spanning(base_option, seed)[0] for seed in range(40))
    option = next(each for each in found if _is_mpi(each))
    with pytest.raises(AdvisorError, match="is written for") as refused:
        emit_files("big", option, form)  # type: ignore[arg-type]
    other = refused.value.fix.rpartition("--emit ")[2]
    assert emit_files("big", option, other)  # type: ignore[arg-type]


def _is_mpi(option: Option) -> bool:
    return option.layout.engine == "tensorrt-llm"


def _expect(words: list[str], option: Option, nodes: int, rank: int, head: str) -> None:
    told = words_of_rank(option, nodes, rank, head)
    place = words.index(told[0])
    assert words[place : place + len(told)] == told
    assert ("--headless" in words) is (option.layout.engine == "vllm" and rank > 0)


def _check_command(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    if _is_mpi(option):
        hosts = ",".join(f"host{place}" for place in range(nodes))
        (words,) = run(files["start.sh"], folder, HOSTS=hosts)
        each = option.machine.accelerators_per_node
        assert words[:3] == ["mpirun", "-n", str(each * nodes)]
        assert words[4] == ",".join(f"host{place}:{each}" for place in range(nodes))
        assert words[5] == "trtllm-llmapi-launch"
        assert words[6 : 6 + len(argv)] == argv
        return [words[6:]]
    found = []
    for rank in range(nodes):
        (words,) = run(files["start.sh"], folder, RANK=str(rank), HEAD="10.0.0.1")
        assert words[: len(argv)] == argv
        _expect(words, option, nodes, rank, "10.0.0.1")
        found.append(words)
    heads = files.get("nginx.conf", "").count("    server HEAD_")
    assert heads == (option.layout.num_replicas if option.layout.num_replicas > 1 else 0)
    return found


def _check_docker(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    found = []
    for rank in range(nodes):
        (words,) = run(files["start.sh"], folder, RANK=str(rank), HEAD="10.0.0.1")
        assert words[words.index("--network") + 1] == "host"
        assert "--device /dev/infiniband" in files["start.sh"]
        devices = words[words.index("--gpus") + 1]
        assert devices.count(",") + 1 == option.machine.accelerators_per_node
        program = words[words.index("--entrypoint") + 1]
        own = [program, *words[words.index("--entrypoint") + 3 :]]
        _expect(own, option, nodes, rank, "10.0.0.1")
        found.append(own)
    return found


def _check_compose(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    content = yaml.safe_load(files["compose.yaml"])
    jsonschema.validate(content, BASIC["compose"])
    head, worker = (content["services"][name] for name in ("head", "worker"))
    assert (head["profiles"], worker["profiles"]) == (["head"], ["worker"])
    found = []
    for rank in range(nodes):
        one = worker if rank else head
        assert any("/dev/infiniband" in device for device in one["devices"])
        reserved = one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        assert len(reserved) == option.machine.accelerators_per_node
        words = [
            re.sub(r"\$\{HEAD:\?[^}]*\}", "10.0.0.1", word) for word in (*one["entrypoint"], *one["command"])
        ]
        words = [re.sub(r"\$\{RANK:-[^}]*\}", str(rank), word) for word in words]
        _expect(words, option, nodes, rank, "10.0.0.1")
        found.append(words)
    return found


def _without_port(template: dict[str, Any]) -> dict[str, Any]:
    """The schema of a pod that answers no requests, so that it has no port and no probe."""
    found = copy.deepcopy(template)
    engine = found["properties"]["spec"]["properties"]["containers"]["items"]["anyOf"][0]
    engine["required"] = [name for name in engine["required"] if not name.endswith("Probe")]
    return found


def _check_kubernetes(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    documents = {one["kind"]: one for one in yaml.safe_load_all(files["plan.k8s.yaml"])}
    group = documents["LeaderWorkerSet"]
    jsonschema.validate(group, SCHEMAS["LeaderWorkerSet"])
    spec = group["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (option.layout.num_replicas, nodes)
    pods = [spec["leaderWorkerTemplate"][f"{role}Template"] for role in ("leader", "worker")]
    # The set's own name is that of the headless Service which its controller makes.
    assert documents["Service"]["metadata"]["name"] != group["metadata"]["name"]
    service = documents["Service"]["spec"]["selector"]
    assert service.items() <= pods[0]["metadata"]["labels"].items()
    assert not service.items() <= pods[1]["metadata"]["labels"].items()
    template = BASIC["kubernetes"]["Deployment"]["properties"]["spec"]["properties"]["template"]
    found = []
    for rank in range(nodes):
        pod = pods[bool(rank)]
        jsonschema.validate(pod, template if rank == 0 else _without_port(template))
        container = pod["spec"]["containers"][0]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == str(option.machine.accelerators_per_node)
        words = [
            word.replace("$(LWS_WORKER_INDEX)", str(rank)).replace("$(LWS_LEADER_ADDRESS)", "leader")
            for word in container["command"]
        ]
        _expect(words, option, nodes, rank, "leader")
        found.append(words)
    return found


def _check_skypilot(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    task: dict[str, Any] = yaml.safe_load(files["service.sky.yaml"])
    jsonschema.validate(task, BASIC["skypilot"])
    assert task["num_nodes"] == nodes
    assert task["service"]["replicas"] == option.layout.num_replicas
    assert int(task["resources"]["accelerators"].split(":")[1]) == option.machine.accelerators_per_node
    found = []
    for rank in range(nodes):
        (words,) = run(
            task["run"], folder, SKYPILOT_NODE_RANK=str(rank), SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2"
        )
        _expect(words, option, nodes, rank, "10.0.0.1")
        found.append(words)
    return found


def _check_slurm(
    files: dict[str, str], folder: Path, option: Option, nodes: int, argv: list[str]
) -> list[list[str]]:
    text = files["replicas.sbatch"]
    asked = dict(re.findall(r"#SBATCH --([a-z-]+)=(\S+)", text))
    node = option.machine.accelerators_per_node
    assert asked["array"] == f"0-{option.layout.num_replicas - 1}"
    assert (int(asked["nodes"]), int(asked["gpus-per-node"])) == (nodes, node)
    assert int(asked["ntasks-per-node"]) == (node if _is_mpi(option) else 1)
    found = run(text, folder, SLURM_JOB_NODELIST="node-[a-b]", SLURM_ARRAY_TASK_ID="0", NODES=str(nodes))
    assert (folder / "endpoints" / "0").read_text() == "server node-a:8001;\n"
    if _is_mpi(option):
        return found
    for rank, words in enumerate(found):
        _expect(words, option, nodes, rank, "node-a")
        assert words[-1] == "8001"
    return found


@pytest.mark.parametrize("engine", ["llama.cpp", "lmdeploy"])
def test_an_engine_without_a_way_over_machines_is_refused(base_option: Option, engine: str) -> None:
    option, _ = spanning(base_option, 1)
    started = launch(engines.by_id(engine), "org/model", LaunchSettings(tp=1))
    other = dataclasses.replace(
        option,
        layout=dataclasses.replace(option.layout, engine=engine),
        launch=Launch(started.command, started.argv, started.config, option.started.checkpoint),
    )
    with pytest.raises(AdvisorError, match="no way is known"):
        emit_files("big", other, "slurm")


def test_the_printed_command_has_a_line_for_each_machine() -> None:
    settings = LaunchSettings(tp=8, pp=2, num_nodes=2)
    first, second = launch(engines.by_id("vllm"), "org/model", settings).command.splitlines()
    assert first.endswith("--nnodes 2 --node-rank 0 --master-addr HEAD --master-port 29500")
    assert second.endswith("--nnodes 2 --node-rank 1 --master-addr HEAD --master-port 29500 --headless")
    (line,) = launch(engines.by_id("tensorrt-llm"), "org/model", settings).command.splitlines()
    assert line.startswith("mpirun -n 16 -H HEAD:8,HOST_2:8 trtllm-llmapi-launch trtllm-serve org/model")


@pytest.mark.parametrize("form", FORMS)
def test_of_several_models_one_may_hold_several_machines(form: str) -> None:
    import advisor

    question = {"models": "deepseek-v3@3,8b@5", "gpu": "h100-sxm", "engine": "vllm", "as_of": "2026-11-20"}
    found = advisor.recommend(**question, fast=True, emit=form).to_dict()["deployment"]["files"]
    own = "\n".join(text for name, text in found.items() if name.startswith("deepseek-v3/"))
    others = "\n".join(text for name, text in found.items() if not name.startswith("deepseek-v3/"))
    assert own.count("nnodes") >= 1
    assert not any("serve deepseek-ai" in line for line in others.splitlines())
    assert "llama" in others
    if form in ("command", "docker", "compose"):
        assert "deepseek-v3 in deepseek-v3 as its README.md says" in found["README.md"]
        assert found["README.md"].startswith("2 models: ")
