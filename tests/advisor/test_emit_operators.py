"""Operators and charts on Kubernetes: files fit their published schemas, and hold every accelerator and option once."""

import dataclasses
import datetime
import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.catalog.engines import by_id
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.launch_options import check_command
from advisor.catalog.published import ServedCheckpoint
from advisor.decide.option import Launch, Machine, Option
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario, Traffic
from advisor.emit.formats import emit_files
from advisor.emit.operators import engine_arguments

SCHEMAS = json.loads((Path(__file__).parent / "target_schemas.json").read_text())
FORMS = ("dynamo", "llm-d", "kserve", "ray")


def plan_of(base: Option, seed: int) -> tuple[Option, int]:
    """An option on one machine for even seeds, on several for odd ones; of a hub's model."""
    draw = random.Random(seed)
    engine = by_id(draw.choice(("vllm", "sglang", "tensorrt-llm")))
    chip, node = draw.choice([("h100-sxm", 8), ("b200-sxm", 8), ("gb200", 4)])
    nodes = draw.choice((2, 3)) if seed % 2 else 1
    tp, pp = (node, nodes) if nodes > 1 else (node // 2, 1)
    dp = 1
    if draw.random() < 0.3 and seed % 2:
        tp = pp = 1
        dp = node * nodes
    replicas = draw.choice((1, 3))
    layout = dataclasses.replace(
        base.layout,
        engine=engine.id,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        expert_parallel=1,
        num_replicas=replicas,
    )
    total = node * nodes * replicas
    settings = LaunchSettings(tp=tp, pp=pp, dp=dp, max_num_seqs=256, max_model_len=16384)
    started = launch(engine, "org/Big Model's 400B", settings)
    checkpoint = ServedCheckpoint("org/Big Model's 400B", "bf16", "published")
    found = Launch(started.command, started.argv, started.config, checkpoint)
    machine = Machine(chip, total, node, total // node)
    option = dataclasses.replace(
        base, machine=machine, layout=layout, levers={}, launch=found, model="llama-3.1-8b"
    )
    return option, nodes


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("form", FORMS)
def test_every_target_fits_its_schema_and_holds_each_accelerator(
    base_option: Option, form: str, seed: int
) -> None:
    option, nodes = plan_of(base_option, seed)
    engine = option.layout.engine
    able = {
        "dynamo": engine in ("vllm", "sglang", "tensorrt-llm"),
        "llm-d": engine == "vllm",
        "kserve": nodes == 1 or engine == "vllm",
        "ray": engine == "vllm",
    }[form]
    if not able:
        with pytest.raises(AdvisorError) as refused:
            emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
        assert refused.value.fix
        return
    files = emit_files("llama-3.1-8b", option, form)  # type: ignore[arg-type]
    assert files["README.md"].count("\n") == 3
    name = "values.yaml" if form == "llm-d" else f"plan.{form}.yaml"
    documents = list(yaml.safe_load_all(files[name]))
    for document in documents:
        kind = "llm-d" if form == "llm-d" else document["kind"]
        if kind != "ConfigMap":
            jsonschema.validate(document, SCHEMAS[kind])
    found = {
        "dynamo": in_dynamo,
        "llm-d": in_llmd,
        "kserve": in_kserve,
        "ray": in_ray,
    }[form](documents, option, nodes)
    each = option.layout.accelerators_per_replica
    assert found == each * option.layout.num_replicas


def in_dynamo(documents: list[dict[str, Any]], option: Option, nodes: int) -> int:
    worker = documents[0]["spec"]["services"]["Worker"]
    container = worker["extraPodSpec"]["mainContainer"]
    argv = container["args"]
    assert argv[1] == "org/Big Model's 400B"
    assert "--host" not in argv
    assert argv[0] == ("--model-path" if option.layout.engine == "sglang" else "--model")
    if option.layout.engine == "vllm":
        check_command("vllm", ["vllm", *argv[2:]])
    if option.layout.engine == "tensorrt-llm":
        assert container["command"][-1] == "dynamo.trtllm"
        assert "/tensorrtllm-runtime:" in container["image"]
        told = dict(zip(argv[::2], argv[1::2], strict=True))
        check_command("dynamo-trtllm", ["dynamo-trtllm", *argv])
        settings = json.loads(told.pop("--override-engine-args", "{}"))
        assert settings.get("enable_attention_dp", False) is (option.layout.data_parallel > 1)
        ranks = int(told["--tensor-parallel-size"]) * int(told["--pipeline-parallel-size"])
        assert ranks == option.layout.accelerators_per_replica
    count = worker.get("multinode", {"nodeCount": 1})["nodeCount"]
    assert count == nodes
    return int(worker["replicas"]) * count * int(worker["resources"]["limits"]["gpu"])


def in_llmd(documents: list[dict[str, Any]], option: Option, nodes: int) -> int:
    decode = documents[0]["decode"]
    (container,) = decode["containers"]
    assert documents[0]["multinode"] is (nodes > 1)
    ways = decode["parallelism"]
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    assert ways["workers"] == nodes
    assert ways["dataLocal"] * ways["tensor"] == gpus
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in documents[0]["decode"]["volumes"]
    command = [*container["command"], *container["args"]]
    if nodes > 1:
        assert command[:2] == ["bash", "-c"]
        assert '--node-rank "$LWS_WORKER_INDEX"' in command[2]
    else:
        assert command[:3] == ["vllm", "serve", "org/Big Model's 400B"]
        check_command("vllm", command)
    return int(decode["replicas"]) * nodes * gpus


def in_kserve(documents: list[dict[str, Any]], option: Option, nodes: int) -> int:
    kinds = {one["kind"]: one for one in documents}
    if nodes > 1:
        return in_kserve_groups(kinds["LLMInferenceService"]["spec"], nodes)
    assert {"InferenceService", "ServiceMonitor"} <= kinds.keys()
    predictor = kinds["InferenceService"]["spec"]["predictor"]
    (container,) = predictor["containers"]
    check_command(option.layout.engine, container["command"])
    if "HorizontalPodAutoscaler" in kinds:
        scaler = kinds["HorizontalPodAutoscaler"]["spec"]
        assert scaler["minReplicas"] == option.layout.num_replicas <= scaler["maxReplicas"]
        assert (
            scaler["scaleTargetRef"]["name"] == f"{kinds['InferenceService']['metadata']['name']}-predictor"
        )
    return int(predictor["minReplicas"]) * int(container["resources"]["limits"]["nvidia.com/gpu"])


def in_kserve_groups(spec: dict[str, Any], nodes: int) -> int:
    """Accelerators of groups of pods, each of which has data / dataLocal, and of which the last have no server."""
    size = spec["parallelism"]["data"] // spec["parallelism"]["dataLocal"]
    assert size == nodes
    for pod, is_leader in ((spec["template"], True), (spec["worker"], False)):
        (container,) = pod["containers"]
        line = re.sub(r"{{.*?}}", "X", container["command"][-1])
        every = line.partition("exec ")[2].replace('"$LWS_WORKER_INDEX"', "1")
        words = shlex.split(every.replace("X--ssl-certfile", "--ssl-certfile").replace("tls.keyX", "tls.key"))
        check_command("vllm", [word for word in words if word not in ("$worker", "serve", "/mnt/models")])
        assert container["args"] == []
        assert ("startupProbe" in container) is is_leader
    return int(spec["replicas"]) * size * int(container["resources"]["limits"]["nvidia.com/gpu"])


def in_ray(documents: list[dict[str, Any]], option: Option, nodes: int) -> int:
    spec = documents[0]["spec"]
    (application,) = yaml.safe_load(spec["serveConfigV2"])["applications"]
    ranks = option.layout.data_parallel
    # A server of Ray holds one rank: without the application of its own, all ranks would share the accelerators of one.
    own = application["import_path"] == "ray.serve.llm:build_dp_openai_app"
    assert own == (ranks > 1)
    config = application["args"]["llm_config"] if own else application["args"]["llm_configs"][0]
    assert config["deployment_config"]["max_ongoing_requests"] * ranks >= (option.layout.max_num_seqs or 1)
    assert config["model_loading_config"]["model_source"] == "org/Big Model's 400B"
    sizes = config["engine_kwargs"]
    ways = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    product = 1
    for way in ways:
        product *= sizes.get(way, 1)
    assert product == option.layout.accelerators_per_replica
    (head,) = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"]
    # KubeRay adds no default ports where some are named, and starts the application through the dashboard's.
    assert {port["name"] for port in head["ports"]} >= {"gcs-server", "dashboard", "client", "serve"}
    (group,) = spec["rayClusterConfig"]["workerGroupSpecs"]
    gpus = int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    needed = product * config["deployment_config"]["num_replicas"]
    assert group["replicas"] * gpus >= needed
    pod = group["template"]["spec"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod["volumes"]
    return needed


def test_options_of_the_server_become_arguments_of_the_engine() -> None:
    words = [
        "--tensor-parallel-size",
        "8",
        "--no-enable-prefix-caching",
        "--enable-lora",
        "--lora-modules",
        "a=/x",
        "b=/y",
    ]
    words += [
        "--hf-overrides",
        '{"max_position_embeddings": 131072}',
        "--spec-method",
        "eagle3",
        "--spec-tokens",
        "3",
    ]
    assert engine_arguments(words) == {
        "tensor_parallel_size": 8,
        "enable_prefix_caching": False,
        "enable_lora": True,
        "hf_overrides": {"max_position_embeddings": 131072},
        "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3},
    }


def test_ray_is_told_where_adapters_lie_and_how_many_a_replica_holds(base_option: Option) -> None:
    """Its servers load adapters from a store of objects alone, and none without this part of the configuration."""
    option, _ = plan_of(base_option, 0)
    started = launch(by_id("vllm"), "org/model", LaunchSettings(tp=4, adapters=(50, 16, 32)))
    layout = dataclasses.replace(option.layout, engine="vllm")
    adapted = Launch(started.command, started.argv, started.config, option.started.checkpoint)
    files = emit_files("llama-3.1-8b", dataclasses.replace(option, layout=layout, launch=adapted), "ray")
    spec = yaml.safe_load(files["plan.ray.yaml"])["spec"]
    (config,) = yaml.safe_load(spec["serveConfigV2"])["applications"][0]["args"]["llm_configs"]
    lora = config["lora_config"]
    assert lora["max_num_adapters_per_replica"] == config["engine_kwargs"]["max_cpu_loras"]
    assert lora["dynamic_lora_loading_path"] in files["README.md"]


def test_a_stack_whose_engine_is_older_than_the_model_is_refused(
    base_option: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisor.emit import operators

    option, _ = plan_of(base_option, 0)
    option = dataclasses.replace(
        option, layout=dataclasses.replace(option.layout, engine="vllm"), model="gemma-4-31b"
    )
    started = launch(by_id("vllm"), "google/gemma-4-31B-it", LaunchSettings(tp=4))
    option = dataclasses.replace(
        option, launch=Launch(started.command, started.argv, started.config, option.started.checkpoint)
    )
    old = dataclasses.replace(operators.DYNAMO, engines={"vllm": "0.12.0"})
    monkeypatch.setattr(operators, "DYNAMO", old)
    with pytest.raises(AdvisorError, match="does not start gemma-4-31b") as refused:
        emit_files("gemma-4-31b", option, "dynamo")
    assert "after 0.18.1" in refused.value.why


@pytest.mark.parametrize(
    ("form", "engines"),
    [("llm-d", {"vllm"}), ("ray", {"vllm"}), ("dynamo", {"vllm", "sglang", "tensorrt-llm"})],
)
def test_a_search_considers_the_engines_for_which_a_form_is_written(
    cli: Callable[[str], Any], form: str, engines: set[str]
) -> None:
    question = "advisor recommend --model qwen3-8b --gpu h100-sxm --rate 1 --fast --json"
    run = cli(f"{question} --emit {form}")
    assert run.code == 0, run.err
    assert f"--emit {form} is written for" in run.err
    considered = {option["layout"]["engine"] for option in json.loads(run.out)["options"]}
    assert considered <= engines
    named = cli(f"{question} --emit {form} --engine llama.cpp")
    assert named.code == 2
    assert "To fix: --engine" in named.err


def _requests(node: Any) -> Iterator[dict[str, Any]]:
    """Yield what each container of a document asks of its node that asks for accelerators."""
    if isinstance(node, list):
        for each in node:
            yield from _requests(each)
    elif isinstance(node, dict):
        found = node.get("requests")
        if isinstance(found, dict) and {"nvidia.com/gpu", "gpu"} & set(found):
            yield found
        for each in node.values():
            yield from _requests(each)


@pytest.mark.parametrize("form", ["k8s", "dynamo", "llm-d", "kserve", "ray"])
@pytest.mark.parametrize(("model", "chip"), [("deepseek-v3", "h200-sxm"), ("qwen3-8b", "l4")])
def test_a_pod_asks_for_the_disk_of_its_download_and_for_no_more_than_its_node_has(
    form: str, model: str, chip: str
) -> None:
    """A checkpoint without room for it is evicted; g6.2xlarge has 8 cores and 32 GB, less the system."""
    traffic = Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=1.0)
    limits = Constraints(accelerators=(chip,), engines=("vllm",))
    day = datetime.date(2026, 11, 20)
    option = recommend(Scenario(model=model, traffic=traffic, constraints=limits, as_of=day)).options[0]
    weights = option.explained.memory_bytes["weight_bytes"] * option.layout.accelerators_per_replica
    documents = [
        document
        for name, text in emit_files(model, option, form).items()  # type: ignore[arg-type]
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
    ]
    asked = list(_requests(documents))
    assert asked
    for one in asked:
        disk = one.get("ephemeral-storage") or one["custom"]["ephemeral-storage"]
        assert int(disk.removesuffix("Gi")) * 2**30 >= weights
        if chip == "l4":
            assert int(one["cpu"]) < 8
            assert int(one["memory"].removesuffix("Gi")) * 2**30 < 28e9


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_server_whose_metrics_are_read_has_them(engine: str) -> None:
    """SGLang answers /metrics only with --enable-metrics; vLLM always does."""
    traffic = Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=1.0)
    limits = Constraints(accelerators=("l4",), engines=(engine,))
    day = datetime.date(2026, 11, 20)
    option = recommend(Scenario(model="qwen3-8b", traffic=traffic, constraints=limits, as_of=day)).options[0]
    documents = list(yaml.safe_load_all(emit_files("qwen3-8b", option, "kserve")["plan.kserve.yaml"]))
    assert "ServiceMonitor" in {one["kind"] for one in documents}
    words = documents[0]["spec"]["predictor"]["containers"][0]["command"]
    assert ("--enable-metrics" in words) == (engine == "sglang")
