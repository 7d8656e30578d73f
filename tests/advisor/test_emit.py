"""Files that start an option: each parses, options of a command are the release's, numbers are the option's."""

import dataclasses
import json
import math
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

from advisor.catalog import accelerators, engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import Guess, LaunchSettings, launch
from advisor.catalog.launch_options import check_command
from advisor.catalog.prices import all_providers
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Launch, Machine, Option
from advisor.emit import manifests
from advisor.emit.formats import Format, check_hardware, emit_files

Cli = Callable[[str], Any]
FORMATS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
SCHEMAS = json.loads((Path(__file__).parent / "emitted_schemas.json").read_text())


def question(base: Option, seed: int) -> tuple[Option, LaunchSettings]:
    """An option as a search might return it: engine, chip, layout, format, levers and replicas drawn at random."""
    draw = random.Random(seed)
    name, chip = draw.choice(
        [
            ("vllm", "h100-sxm"),
            ("vllm", "mi300x"),
            ("vllm", "l40s"),
            ("sglang", "h200-sxm"),
            ("sglang", "mi355x"),
            ("tensorrt-llm", "b200-sxm"),
            ("tensorrt-llm", "h100-sxm"),
            ("llama.cpp", "rtx-4090"),
            ("lmdeploy", "a100-sxm-80gb"),
        ]
    )
    engine = engines.by_id(name)
    flags = engine.flags
    local = name == "llama.cpp"
    tp = 1 if local else draw.choice((1, 2, 4, 8))
    dtype = "q4_k_m" if local else draw.choice(("bf16", "fp8", "int4", "nvfp4"))
    origin = draw.choice(("published", "pattern", "quantise first"))
    halves = ["q8_0", "q8_0/q4_0"] if flags.kv_halves else []
    kv = draw.choice(["bf16", *flags.kv, *flags.yaml_kv, *halves])
    guesses = [None, *(Guess(one, 3, "org/head") for one in (*flags.speculation, *flags.yaml_speculation))]
    loras = draw.choice([None, (50, 16, 50)]) if flags.adapters or flags.yaml_adapters else None
    settings = LaunchSettings(
        tp=tp,
        weight_dtype=dtype,
        checkpoint_dtype=dtype,
        kv_dtype=kv,
        max_num_seqs=draw.choice((8, 256)),
        max_num_batched_tokens=2048,
        max_model_len=draw.choice((8192, 32768)),
        guess=draw.choice(guesses),
        adapters=loras,
        prefix_caching=draw.choice((None, True, False)),
    )
    repository = "./llama-quantised" if origin == "quantise first" else "org/Llama-3.1-8B"
    started = launch(engine, repository, settings)
    replicas = draw.choice((1, 2, 5, 29))
    unit = draw.choice((tp, 8))
    checkpoint = ServedCheckpoint("org/Llama-3.1-8B", dtype, origin)  # type: ignore[arg-type]
    made = dataclasses.replace(
        base,
        machine=Machine(chip, tp * replicas, unit, math.ceil(tp * replicas / unit)),
        layout=dataclasses.replace(
            base.layout,
            engine=name,
            tensor_parallel=tp,
            weight_dtype=dtype,
            kv_dtype=kv,
            num_replicas=replicas,
        ),
        levers={"speculation": settings.guess, "adapters": loras},
        launch=Launch(started.command, started.argv, started.config, checkpoint),
    )
    return made, settings


@pytest.mark.parametrize("seed", range(60))
def test_generated_questions_in_every_format(base_option: Option, seed: int, tmp_path: Path) -> None:
    option, settings = question(base_option, seed)
    for form in FORMATS:
        if form == "skypilot" and option.machine.accelerator == "mi355x":
            with pytest.raises(AdvisorError, match="under a name that is known"):
                emit_files("llama-3.1-8b", option, form)
            continue
        files = emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
        assert files["README.md"].count("\n") == 3
        assert ("quantise.sh" in files) is (option.started.checkpoint.origin == "quantise first")
        text = "\n".join(files.values())
        assert ("verify: org/Llama-3.1-8B" in text) is (option.started.checkpoint.origin == "pattern")
        for name, content in files.items():
            if name.endswith((".sh", ".sbatch")):
                (tmp_path / name).write_text(content)
                subprocess.run(["bash", "-n", tmp_path / name], check=True)
            elif name == "nginx.conf":
                assert content.count("    server ") == option.layout.num_replicas
        words, replicas, per_replica = {
            "command": in_script,
            "docker": in_docker,
            "slurm": in_slurm,
            "compose": in_compose,
            "k8s": in_kubernetes,
            "skypilot": in_skypilot,
        }[form](files, option)
        check_command(option.layout.engine, words)
        on_host = min(option.layout.num_replicas, option.machine.accelerators_per_node // per_replica)
        assert replicas == (option.layout.num_replicas if form in ("k8s", "skypilot", "slurm") else on_host)
        assert per_replica == option.layout.tensor_parallel
        assert count_replicas(files, form, option, replicas) == option.layout.num_replicas
        if option.layout.engine == "llama.cpp":
            assert str(settings.max_model_len * (settings.max_num_seqs or 1)) in words
        if option.layout.engine in ("vllm", "sglang", "tensorrt-llm"):
            assert {str(settings.tp), str(settings.max_model_len), str(settings.max_num_seqs)} <= set(words)
        if "engine.yaml" in files:
            assert yaml.safe_load(files["engine.yaml"]) == option.started.config
        if form in ("docker", "compose", "k8s", "skypilot") and option.layout.engine == "llama.cpp":
            assert words[0] == "/app/llama-server"  # not on the search path of its images
        if form == "k8s":
            vendor = accelerators.by_id(option.machine.accelerator).vendor
            assert f"- key: {vendor}.com/gpu\n        operator: Exists" in files["plan.k8s.yaml"]


def count_replicas(files: dict[str, str], form: str, option: Option, on_host: int) -> int:
    """Replicas that the commands of README.md start on all machines together."""
    if form in ("k8s", "skypilot", "slurm"):
        return on_host
    told = files["README.md"]
    machines = int(found[1]) if (found := re.search(r"on each of (\d+) machines", told)) else 1
    if "on the last machine" not in told:
        assert "last.compose.yaml" not in files
        return machines * on_host
    if form == "compose":
        last = len(yaml.safe_load(files["last.compose.yaml"])["services"])
    else:
        assert f"`REPLICAS={on_host} bash start.sh`" in told
        last = int(re.search(r"on the last machine `REPLICAS=(\d+)", told)[1])  # type: ignore[index]
    return (machines - 1) * on_host + last


Found = tuple[list[str], int, int]


def unquote(line: str) -> list[str]:
    return [word for word in shlex.split(line) if word != "&"]


def visible(text: str) -> int:
    """Accelerators that one replica of a loop gets."""
    found = re.search(r"\$\(\(i \* (\d+)\)\)", text)
    return int(found.group(1)) if found else 1


def in_script(files: dict[str, str], option: Option) -> Found:
    text = files["start.sh"]
    replicas = re.search(r"REPLICAS:[-?](\d+)", text)
    line = next(
        line for line in text.splitlines() if option.started.argv[0] in line and not line.startswith("#")
    )
    words = unquote(line)
    per_replica = visible(text) if replicas else option.layout.tensor_parallel
    return words[1:], int(replicas.group(1)) if replicas else 1, per_replica


def in_docker(files: dict[str, str], option: Option) -> Found:
    text = files["start.sh"]
    replicas = re.search(r"REPLICAS:[-?](\d+)", text)
    assert replicas
    assert "--health-cmd" in text
    assert "--memory" in text
    first = re.search(r"--entrypoint (\S+)", text)
    assert first
    line = text.split("--entrypoint")[1].split("\n")[1]
    return [first.group(1), *unquote(line)], int(replicas.group(1)), visible(text)


def in_slurm(files: dict[str, str], option: Option) -> Found:
    text = files["replicas.sbatch"]
    last = re.search(r"--array=0-(\d+)", text)
    each = re.search(r"--gpus-per-node=(\d+)", text)
    assert last
    assert each
    assert ("router.sh" in files) is (option.layout.num_replicas > 1)
    line = next(line for line in text.splitlines() if line.startswith("srun "))
    _, cores, *words = unquote(line)
    assert f"#SBATCH {cores}" in text  # srun does not inherit it
    return words, int(last.group(1)) + 1, int(each.group(1))


def in_compose(files: dict[str, str], option: Option) -> Found:
    content = yaml.safe_load(files["compose.yaml"])
    jsonschema.validate(content, SCHEMAS["compose"])
    replicas = [one for name, one in content["services"].items() if name.startswith("replica")]
    first = replicas[0]
    if "reservations" in first["deploy"]["resources"]:
        devices = first["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    else:
        devices = first["environment"]["HIP_VISIBLE_DEVICES"].split(",")
    return [*first["entrypoint"], *first["command"]], len(replicas), len(devices)


def in_kubernetes(files: dict[str, str], option: Option) -> Found:
    documents = list(yaml.safe_load_all(files["plan.k8s.yaml"]))
    for document in documents:
        jsonschema.validate(document, SCHEMAS["kubernetes"][document["kind"]])
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    vendor = accelerators.by_id(option.machine.accelerator).vendor
    count = container["resources"]["limits"][f"{vendor}.com/gpu"]
    assert ("ConfigMap" in {one["kind"] for one in documents}) is bool(option.started.config)
    return container["command"], deployment["spec"]["replicas"], int(count)


def in_skypilot(files: dict[str, str], option: Option) -> Found:
    task = yaml.safe_load(files["service.sky.yaml"])
    jsonschema.validate(task, SCHEMAS["skypilot"])
    count = int(task["resources"]["accelerators"].split(":")[1])
    return shlex.split(task["run"]), task["service"]["replicas"], count


def test_what_cannot_be_started_is_refused_with_what_can(base_option: Option) -> None:
    machine = base_option.machine
    tpu = dataclasses.replace(base_option, machine=dataclasses.replace(machine, accelerator="tpu-v6e"))
    with pytest.raises(AdvisorError, match="of NVIDIA and AMD"):
        emit_files("llama-3.1-8b", tpu, "k8s")
    argv = (*base_option.started.argv, "--made-up")
    unknown = dataclasses.replace(base_option, launch=dataclasses.replace(base_option.started, argv=argv))
    with pytest.raises(AdvisorError, match="has no option --made-up"):
        emit_files("llama-3.1-8b", unknown, "compose")


@pytest.mark.slow
def test_a_folder_for_each_plan(cli: Cli, tmp_path: Path) -> None:
    asked = "advisor recommend --model 8b --rate 1 --gpu l40s --engine vllm --as-of 2026-11-20"
    run = cli(f"{asked} --emit compose -o {tmp_path / 'plan'}")
    assert run.code == 0, run.err
    assert {path.name for path in (tmp_path / "plan").iterdir()} == {"compose.yaml", "README.md"}
    assert "wrote README.md, compose.yaml" in run.err
    printed = cli(f"{asked} --emit k8s")
    assert "kind: Deployment" in printed.out
    told = json.loads(cli(f"{asked} --emit k8s --json").out)["deployment"]
    assert told["format"] == "k8s"
    assert set(told["files"]) == {"plan.k8s.yaml", "README.md"}
    refused = cli(f"{asked} --emit-dir {tmp_path}")
    assert refused.code == 2
    assert "To fix: --emit compose" in refused.err


@pytest.mark.parametrize(
    ("engine", "config"),
    [("vllm", False), ("sglang", False), ("tensorrt-llm", True)],
)
def test_a_local_draft_head_is_where_the_engine_looks(base_option: Option, engine: str, config: bool) -> None:
    head = "./llama-eagle3"
    settings = LaunchSettings(guess=Guess("eagle", 3, head))
    started = launch(engines.by_id(engine), "org/Llama", settings)
    checkpoint = ServedCheckpoint("org/Llama", "bf16", "published")
    option = dataclasses.replace(
        base_option,
        machine=Machine("h100-sxm", 1, 8, 1),
        layout=dataclasses.replace(base_option.layout, engine=engine),
        levers={"speculation": settings.guess},
        launch=Launch(started.command, started.argv, started.config, checkpoint),
    )
    assert (head in started.argv) is not config
    for form in FORMATS:
        files = emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
        text = "\n".join(files.values())
        assert f"put one into {head}" in text
        seen = f"speculative_model: {head}" if config else f"{head} --"
        assert (seen in text) is (form in ("command", "slurm"))
        assert ("/plan/llama-eagle3" in text) is (form not in ("command", "slurm"))
    for form in ("dynamo", "llm-d", "ray"):
        with pytest.raises(AdvisorError, match=r"models of a hub only|is written for"):
            emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("rtx-4090", "RTX4090"),
        ("rtx-a6000", "RTXA6000"),
        ("rtx-6000-ada", "RTX6000-Ada"),
        ("gh200-96gb", "GH200"),
        ("v100-sxm2-32gb", "V100-32GB"),
        ("a100-pcie-80gb", "A100-80GB"),
        ("h200-sxm", "H200"),
        ("mi300x", "MI300X"),
    ],
)
def test_skypilot_knows_the_accelerator_by_its_own_name(base_option: Option, chip: str, name: str) -> None:
    option = dataclasses.replace(base_option, machine=Machine(chip, 1, 8, 1))
    files = emit_files("llama-3.1-8b", option, "skypilot")
    assert yaml.safe_load(files["service.sky.yaml"])["resources"]["accelerators"] == f"{name}:1"


@pytest.mark.parametrize(
    ("provider", "chip", "name"),
    [
        ("runpod", "a100-pcie-80gb", "A100-80GB"),
        ("runpod", "a100-sxm-80gb", "A100-80GB-SXM"),
        ("runpod", "h100-pcie", "H100"),
        ("runpod", "h100-sxm", "H100-SXM"),
        ("runpod", "h200-sxm", "H200-SXM"),
        ("runpod", "b300-sxm", ""),
        ("lambda", "rtx-a6000", "A6000"),
        ("azure", "h100-nvl", "H100"),
        ("aws", "a100-sxm-80gb", "A100-80GB"),
        ("gcp", "h100-sxm", "H100"),
    ],
)
def test_skypilot_rents_the_priced_board(base_option: Option, provider: str, chip: str, name: str) -> None:
    """Source: PyPI skypilot 0.14.1, sky/provision/runpod/utils.py and sky/catalog/data_fetchers."""
    assert base_option.offer is not None
    offer = dataclasses.replace(base_option.offer, provider=provider)
    option = dataclasses.replace(base_option, machine=Machine(chip, 1, 8, 1), offer=offer)
    if not name:
        with pytest.raises(AdvisorError, match="under a name that is known"):
            emit_files("llama-3.1-8b", option, "skypilot")
        return
    files = emit_files("llama-3.1-8b", option, "skypilot")
    assert yaml.safe_load(files["service.sky.yaml"])["resources"]["accelerators"] == f"{name}:1"
    assert ("may also be h100-sxm" in files["README.md"]) == (chip == "h100-nvl")


def test_names_of_skypilot_by_provider_are_of_known_providers_and_accelerators() -> None:
    names = {accelerator for _, accelerator in manifests._sky_names()}
    also = {each for cells in manifests._sky_names().values() for each in cells["also"].split()}
    assert names | also <= set(accelerators.all_ids())
    assert all(all_providers()[provider].skypilot for provider, _ in manifests._sky_names())


@pytest.mark.parametrize(("provider", "name"), [("runpod", "H100"), ("vast", "H100"), ("azure", "A100-80GB")])
def test_a_name_of_skypilot_for_several_boards_says_so(provider: str, name: str) -> None:
    """Boards of one provider have names of their own, or each says which others its name means."""
    of = {chip: cells for (by, chip), cells in manifests._sky_names().items() if by == provider}
    alike = {chip for chip, cells in of.items() if cells["skypilot"] == name}
    assert all(alike - {chip} <= set(of[chip]["also"].split()) for chip in alike)


@pytest.mark.parametrize("provider", ["runpod", "vast", "lambda", "aws"])
def test_skypilot_is_refused_several_machines_where_it_joins_none(base_option: Option, provider: str) -> None:
    """Source: PyPI skypilot 0.14.1, sky/clouds/runpod.py and vast.py, MULTI_NODE."""
    assert base_option.offer is not None
    option = dataclasses.replace(
        base_option,
        machine=Machine("h100-sxm", 16, 8, 2),
        layout=dataclasses.replace(
            base_option.replica_layout, tensor_parallel=8, pipeline_parallel=2, num_replicas=1
        ),
        offer=dataclasses.replace(base_option.offer, provider=provider),
    )
    if all_providers()[provider].skypilot_joins:
        assert f"infra: {provider}" in emit_files("llama-3.1-8b", option, "skypilot")["service.sky.yaml"]
        return
    with pytest.raises(AdvisorError, match="joins no machines of"):
        emit_files("llama-3.1-8b", option, "skypilot")


@pytest.mark.parametrize("form", [*FORMATS, "dynamo", "llm-d", "kserve", "ray"])
@pytest.mark.parametrize("names", [("m4-max-40-core",), ("tpu-v6e", "mi300x"), ("h100-sxm", "tpu-v6e")])
def test_a_form_is_refused_where_it_goes_with_none_of_the_hardware(
    form: Format, names: tuple[str, ...]
) -> None:
    vendors = {accelerators.by_id(name).vendor for name in names}
    on_one = {"dynamo", "llm-d", "ray"}
    goes = form in ("command", "slurm") or "nvidia" in vendors or ("amd" in vendors and form not in on_one)
    if goes:
        check_hardware(form, names)
        return
    with pytest.raises(AdvisorError) as refused:
        check_hardware(form, names, ("tpu-v5e", "l4"))
    assert refused.value.fix.startswith("--gpu l4, or --emit ")


@pytest.mark.parametrize("provider", sorted(all_providers()))
def test_skypilot_rents_from_the_priced_provider_or_says_that_it_does_not(
    base_option: Option, provider: str
) -> None:
    """Source: PyPI skypilot 0.14.1, sky/clouds."""
    assert base_option.offer is not None
    option = dataclasses.replace(base_option, offer=dataclasses.replace(base_option.offer, provider=provider))
    files = emit_files("llama-3.1-8b", option, "skypilot")
    name = all_providers()[provider].skypilot
    assert yaml.safe_load(files["service.sky.yaml"])["resources"].get("infra", "") == name
    assert ("SkyPilot runs no services on" in files["README.md"]) == (not name)


@pytest.mark.parametrize(
    ("chip", "devices", "variable"),
    [
        ("mi250x", 2, "HIP_VISIBLE_DEVICES"),
        ("trainium2", 4, "NEURON_RT_VISIBLE_CORES"),
        ("gaudi3", 1, "HABANA_VISIBLE_MODULES"),
        ("tpu-v7", 1, "TPU_VISIBLE_CHIPS"),
    ],
)
def test_replicas_on_one_machine_get_devices_as_the_driver_numbers_them(
    base_option: Option, chip: str, devices: int, variable: str
) -> None:
    layout = dataclasses.replace(base_option.layout, num_replicas=2)
    option = dataclasses.replace(base_option, machine=Machine(chip, 2, 4, 1), layout=layout)
    text = emit_files("llama-3.1-8b", option, "command")["start.sh"]
    assert f'  {variable}="$devices" vllm serve' in text
    assert f"devices=$(seq -s, $((i * {devices})) $((i * {devices} + {devices - 1})))" in text
    if chip == "mi250x":
        (deployment, _) = yaml.safe_load_all(emit_files("llama-3.1-8b", option, "k8s")["plan.k8s.yaml"])
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["amd.com/gpu"] == "2"


@pytest.mark.parametrize("chip", ["mi250x", "tpu-v7", "trainium2", "mi300x"])
def test_tensor_parallelism_counts_the_devices_that_software_sees(chip: str) -> None:
    import advisor

    question = {"model": "llama-3.1-8b", "engine": "vllm", "own": f"8x{chip}", "as_of": "2026-11-20"}
    found = advisor.recommend(**question, concurrency=4, fast=True).options[0]
    words = found.started.argv
    tp = int(words[words.index("--tensor-parallel-size") + 1])
    assert tp == found.layout.tensor_parallel * accelerators.by_id(chip).devices


def test_an_engine_that_runs_through_a_plug_in_names_it(base_option: Option) -> None:
    for chip, package in (("tpu-v6e", "vllm-tpu"), ("gaudi3", "vllm-gaudi"), ("trainium2", "vllm-neuron")):
        option = dataclasses.replace(base_option, machine=Machine(chip, 1, 8, 1))
        assert f"first: install {package}" in emit_files("llama-3.1-8b", option, "command")["README.md"]


@pytest.mark.parametrize(
    ("model", "question"),
    [
        ("gemma-2-9b", {"gpu": "l40s", "engine": "llama.cpp", "rate": 0.3}),
        ("phi-2", {"gpu": "l40s", "engine": "sglang", "rate": 0.3, "precision": "int4"}),
        ("llama-3.1-8b", {"gpu": "l40s", "engine": "tensorrt-llm", "rate": 0.3, "precision": "int4"}),
    ],
)
def test_weights_that_a_script_makes_reach_every_container(model: str, question: dict[str, Any]) -> None:
    import advisor

    for form in ("docker", "compose", "k8s", "skypilot"):
        asked = {"model": model, "as_of": "2026-11-20", **question}
        files = advisor.recommend(**asked, fast=True, emit=form).to_dict()["deployment"]["files"]
        assert "quantise.sh" in files
        text = "\n".join(text for name, text in files.items() if name != "quantise.sh")
        (made,) = set(re.findall(r"/plan/([\w.-]+(?:gguf|int4))", text))
        assert made in files["quantise.sh"]
        if form == "skypilot":
            mounts = yaml.safe_load(files["service.sky.yaml"])["file_mounts"]
            assert mounts[f"/plan/{made}"] == f"./{made}"
        else:
            assert {"docker": '"$PWD":/plan', "compose": ".:/plan", "k8s": "claimName: models"}[form] in text


@pytest.mark.parametrize(("weight_bytes", "least_s", "least_gib"), [(16e9, 1800, 256), (700e9, 6000, 720)])
def test_a_large_checkpoint_has_time_and_disk_for_its_download(
    base_option: Option, weight_bytes: float, least_s: int, least_gib: int
) -> None:
    """The disk of SkyPilot is 256 GiB unless it is told otherwise (PyPI skypilot 0.14.1, sky/resources.py)."""
    explanation = dataclasses.replace(base_option.explained, memory_bytes={"weight_bytes": weight_bytes})
    option = dataclasses.replace(base_option, explanation=explanation)
    task = yaml.safe_load(emit_files("llama-3.1-8b", option, "skypilot")["service.sky.yaml"])
    jsonschema.validate(task, SCHEMAS["skypilot"])
    assert task["service"]["readiness_probe"]["initial_delay_seconds"] >= least_s
    assert task["resources"].get("disk_size", 256) >= least_gib
