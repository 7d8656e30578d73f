"""Plans for operators and charts on Kubernetes: NVIDIA Dynamo, llm-d, KServe, Ray Serve LLM."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from advisor.catalog.architectures import class_support, class_words
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.launch import PORT, node_words
from advisor.catalog.launch_options import DYNAMO_TRTLLM, check_command, words_in_release
from advisor.catalog.legible import Line
from advisor.catalog.models import get
from advisor.catalog.units import GIB
from advisor.emit.fleet import FIRST_CACHE_PORT, moves_caches, variables
from advisor.emit.manifests import (
    config_map,
    dump_yaml,
    in_kubernetes,
    placement,
    pod_notes,
    pod_of,
    requests_and_limits,
    sky_doubts,
)
from advisor.emit.plan import HEALTH, Plan

_SECRET: Final = "hf-token"
_DYNAMO_SECRET: Final = "hf-token-secret"
"""Secret whose keys become environment variables: it holds HF_TOKEN."""
_DOWNLOAD: Final = 1.2
"""Volume for a model over the size of its weights: room for the tokenizer and a partial file."""
_MOST_REPLICAS_FACTOR: Final = 2
"""Largest number of replicas of an autoscaler over the planned number. Own choice."""
_SCRAPE_INTERVAL: Final = "15s"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of servers with engines of its own choice of release."""

    name: str
    release: str
    engines: Mapping[str, str]
    """Release of each engine that the stack pins; empty for those of the plan's own image."""
    source: str


DYNAMO: Final = Stack(
    "NVIDIA Dynamo",
    "1.6.1",
    {"vllm": "0.31.0", "sglang": "0.5.21", "tensorrt-llm": "1.3.0rc29"},
    "PyPI ai-dynamo 1.6.1, its extras; ai-dynamo/dynamo deploy/operator/api/v1alpha1",
)
RAY: Final = Stack(
    "Ray Serve LLM",
    "2.60.0",
    {"vllm": "0.29.0"},
    "PyPI ray 2.60.0, its extra llm; ray-project/kuberay samples",
)
LLM_D: Final = Stack(
    "llm-d", "v0.4.12", {"vllm": ""}, "llm-d-incubation/llm-d-modelservice@3051935 (chart v0.4.12)"
)
DYNAMO_ROLE: Final = "--disaggregation-mode"
"""Option of Dynamo's workers, which SGLang has too, for those that only prefill or only decode."""
_DYNAMO_NAMES: Final = {"tensorrt-llm": ("trtllm", "tensorrtllm")}
"""Names of engines in Dynamo's modules and in its images where they differ from the catalog's."""
_TRTLLM_OPTIONS: Final[Mapping[str, str]] = {
    "--backend": "",
    "--tp_size": "--tensor-parallel-size",
    "--pp_size": "--pipeline-parallel-size",
    "--ep_size": "--expert-parallel-size",
    "--max_batch_size": "--max-batch-size",
    "--max_num_tokens": "--max-num-tokens",
    "--max_seq_len": "--max-seq-len",
    "--kv_cache_free_gpu_memory_fraction": "--free-gpu-memory-fraction",
}
"""Options of Dynamo's worker for those of trtllm-serve; empty for PyTorch's back end, the only one that it has.
Source: PyPI ai-dynamo 1.6.1, dynamo/trtllm/backend_args.py and workers/llm_worker.py."""
_CHARTS: Final = "https://llm-d-incubation.github.io/llm-d-modelservice"
"""Address of the chart. Source: llm-d-incubation/llm-d-modelservice, README.md."""
CHART: Final = "llm-d-modelservice/llm-d-modelservice --version v0.4.12"
"""Helm chart and its version."""
KSERVE: Final = Stack("KServe", "v1beta1", {}, "kserve/kserve@aaac4e2 config/crd/full")
KSERVE_POOLS: Final = Stack(
    "KServe", "v1alpha2", {"vllm": ""}, "kserve/kserve@aaac4e2 config/llmisvcconfig: its templates run vLLM"
)
"""Stack of an LLMInferenceService, whose pods prefill or decode."""


def engines_of(form: str) -> tuple[str, ...]:
    """Return the engines for which a form is written; empty if the form runs the plan's own image of any."""
    return tuple({"dynamo": DYNAMO, "ray": RAY, "llm-d": LLM_D}.get(form, KSERVE).engines)


def _check_stack(plan: Plan, stack: Stack, form: str) -> str:
    """Return what to verify about the engine's release in a stack; empty if the stack runs the plan's own image.

    Raises: AdvisorError: the stack does not run the engine, loads nothing from a local folder, or its release of the
        engine does not load the model's class.
    """
    is_mpi = plan.nodes_per_replica > 1 and plan.is_mpi
    plain = "--emit slurm" if is_mpi else "--emit k8s"
    if stack.engines and plan.engine.id not in stack.engines:
        raise AdvisorError(
            f"--emit {form} is written for {' and '.join(stack.engines)}, not for {plan.engine.name}",
            why=f"read in: {stack.source}",
            fix=f"--engine {next(iter(stack.engines))}, or {plain}",
        )
    if plan.local_path or plan.own_paths or plan.adapter_folder:
        raise AdvisorError(
            f"--emit {form} starts models of a hub only",
            why="weights, a draft head or adapters of the plan lie in a local folder, which its pods do not see",
            fix=plain if is_mpi else f"{plain}, which mounts a volume",
        )
    pinned = stack.engines.get(plan.engine.id, "")
    if not pinned:
        return ""
    found = class_support(plan.engine, get(plan.option.model or plan.model).record, version=pinned)
    if found.is_refused:
        raise InfeasibleError(
            f"{stack.name} {stack.release} does not start {plan.model}",
            why=class_words(found, plan.engine.name),
            fix=plain,
        )
    pins = f"{stack.name} {stack.release} pins {plan.engine.name} {pinned}"
    return f"verify: {pins}; the plan was made for {plan.release}"


_RAY_IMAGE: Final = f"rayproject/ray-llm:{RAY.release}-py312-cu130"


def _dynamo_image(plan: Plan) -> str:
    _, name = _DYNAMO_NAMES.get(plan.engine.id, ("", plan.engine.id))
    return f"nvcr.io/nvidia/ai-dynamo/{name}-runtime:{DYNAMO.release}"


def release_in(plan: Plan, form: str) -> str:
    """Return the engine's name and the release whose options a form has: that of the stack where it pins one."""
    stack = {"dynamo": DYNAMO, "ray": RAY}.get(form)
    pinned = stack.engines.get(plan.engine.id, "") if stack else ""
    return f"{plan.engine.name} {pinned or plan.release}"


def stack_doubts(plan: Plan, form: str) -> tuple[str, ...]:
    """Return what to verify about the stack of a form; empty for the other forms."""
    pattern = "verify: the tag of {} follows its publisher's pattern"
    if form == "dynamo":
        secret = f"first: the Dynamo operator, and the Secret {_DYNAMO_SECRET} with the key HF_TOKEN"
        return secret, _check_stack(plan, DYNAMO, form), pattern.format(_dynamo_image(plan))
    if form == "ray":
        is_adapted = any("lora" in word for word in plan.words())
        bucket = (
            f"first: put the adapters into folders of a bucket, and its name in place of {_ADAPTER_BUCKET}"
        )
        adapters = (bucket,) if is_adapted else ()
        return (
            "first: the KubeRay operator",
            *adapters,
            _check_stack(plan, RAY, form),
            pattern.format(_RAY_IMAGE),
        )
    if form == "skypilot":
        return sky_doubts(plan)
    if form == "llm-d":
        return (
            f"first: helm repo add llm-d-modelservice {_CHARTS}",
            "verify: an InferencePool or Gateway selects the pods by the label llm-d.ai/model",
        )
    if form == "kserve" and (moves_caches(plan) or plan.nodes_per_replica > 1):
        groups = "parallelism.data is the number of machines of a replica, by which KServe sizes its groups of pods"
        return (
            *((groups,) if plan.nodes_per_replica > 1 else ()),
            "first: KServe's controller of LLMInferenceServices, and a Gateway with the inference extension",
            "verify: the storage initializer may read the model, and has memory enough to copy it",
        )
    if form == "kserve":
        return (
            "verify: an adapter such as prometheus-adapter serves the metric of the HorizontalPodAutoscaler",
            f"{_MOST_REPLICAS_FACTOR} times the planned replicas are allowed, which is an assumption",
        )
    return ()


def _comments(plan: Plan, *lines: str) -> tuple[Line, ...]:
    return (*plan.comments, *pod_notes(plan), *(Line(line) for line in lines if line))


def _all_comments(parts: Sequence[Plan], form: str) -> tuple[Line, ...]:
    """Return the comments of all pools, each line once."""
    return tuple(dict.fromkeys(line for part in parts for line in _comments(part, *stack_doubts(part, form))))


def _check_alike(told: Sequence[str], form: str, why: str) -> None:
    """Refuse pools that are unlike in what a form says once for all.

    Raises: AdvisorError: `told` has several values.
    """
    if unlike := sorted(set(told))[1:]:
        raise AdvisorError(
            f"--emit {form} writes no pools of {' and '.join((min(told), *unlike))}",
            why=why,
            fix="--emit k8s",
        )


def _engine_words(plan: Plan) -> tuple[str, list[Line]]:
    """Return the model and the engine's own options, without program and model."""
    words = list(plan.words(in_container=True))
    first = next(place for place, word in enumerate(words) if word.startswith("--"))
    if plan.engine.id == "sglang":
        place = words.index(Line("--model-path"))
        return words[place + 1], words[first:place] + words[place + 2 :]
    return words[first - 1], words[first:]


def dynamo_files(plan: Plan) -> dict[str, str]:
    """Return a DynamoGraphDeployment: Dynamo's frontend, which routes, and workers of one or several nodes.

    The operator tells workers of several nodes their ranks and addresses.
    """
    return _dynamo_graph(plan.name, {"Worker": plan}, _comments(plan, *stack_doubts(plan, "dynamo")))


def dynamo_pool_files(name: str, parts: Sequence[Plan]) -> dict[str, str]:
    """Return a DynamoGraphDeployment with workers that prefill and workers that decode, which Dynamo's frontend pairs.

    Source: PyPI ai-dynamo 1.6.1, dynamo/vllm/args.py and dynamo/sglang/args.py: `--disaggregation-mode`.
    """
    services = {f"{part.option.role.capitalize()}Worker": part for part in parts}
    return _dynamo_graph(name, services, _all_comments(parts, "dynamo"))


def _dynamo_graph(name: str, workers: Mapping[str, Plan], comments: Sequence[Line]) -> dict[str, str]:
    """Return the file of a frontend and named workers."""
    first = next(iter(workers.values()))
    frontend = {
        "componentType": "frontend",
        "replicas": 1,
        "envFromSecret": _DYNAMO_SECRET,
        "extraPodSpec": {"mainContainer": {"image": _dynamo_image(first)}},
    }
    services = {"Frontend": frontend} | {key: _dynamo_worker(plan) for key, plan in workers.items()}
    content = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {"services": services},
    }
    return {"plan.dynamo.yaml": dump_yaml(comments, content)}


def _dynamo_worker(plan: Plan) -> dict[str, Any]:
    """Return the service of workers that serve whole requests, or of those that only prefill or only decode."""
    _check_stack(plan, DYNAMO, "dynamo")
    module, _ = _DYNAMO_NAMES.get(plan.engine.id, (plan.engine.id, ""))
    model, words = _engine_words(plan) if module != "trtllm" else _dynamo_trtllm_words(plan)
    if module != "trtllm":
        words = list(map(Line, words_in_release(plan.engine.id, words, DYNAMO.engines[plan.engine.id])))
    flag = "--model-path" if plan.engine.id == "sglang" else "--model"
    role = plan.option.role if plan.option.role in ("prefill", "decode") else ""
    if role and plan.engine.id == "sglang":
        words += map(Line, ("--host", "0.0.0.0"))  # decode workers ask those that prefill for caches
    if role and DYNAMO_ROLE not in words:
        words += [Line(DYNAMO_ROLE), Line(role)]
    resources: dict[str, Any] = {
        "cpu": str(plan.num_cpus),
        "memory": f"{plan.memory_gib}Gi",
        "gpu": str(plan.accelerators_per_process),
    }
    custom = {"custom": {"ephemeral-storage": f"{plan.disk_gib}Gi"}} if plan.disk_gib else {}
    worker: dict[str, Any] = {
        "componentType": "worker",
        **({"subComponentType": role} if role else {}),
        "replicas": plan.num_replicas,
        "envFromSecret": _DYNAMO_SECRET,
        "resources": {"requests": resources | custom, "limits": dict(resources)},
        "sharedMemory": {"size": "16Gi"},
    }
    if plan.nodes_per_replica > 1:
        worker["multinode"] = {"nodeCount": plan.nodes_per_replica}
    pod = placement(plan)
    pod["mainContainer"] = {
        "image": _dynamo_image(plan),
        "command": ["python3", "-m", f"dynamo.{module}"],
        "args": in_kubernetes([Line(flag), Line(model), *words]),
    }
    return worker | {"extraPodSpec": pod}


def _dynamo_trtllm_words(plan: Plan) -> tuple[str, list[Line]]:
    """Return the model and Dynamo's options of a TensorRT-LLM worker; those of a file go as one JSON value.

    Source: as _TRTLLM_OPTIONS; values of the JSON are merged over those of options, and a table that is no dictionary
        there is replaced, so that it is given whole.
    """
    _, model, *rest = plan.launch.argv
    words: list[Line] = []
    options: dict[str, Any] = json.loads(json.dumps(dict(plan.launch.config)))
    while rest:
        name = rest.pop(0)
        if not rest or rest[0].startswith("--"):
            options[name[2:]] = True
            continue
        value = rest.pop(0)
        told = _TRTLLM_OPTIONS.get(name, name)
        words += [Line(told), value] if told else []
        if name == "--kv_cache_free_gpu_memory_fraction" and "kv_cache_config" in options:
            options["kv_cache_config"]["free_gpu_memory_fraction"] = float(value)
    if plan.nodes_per_replica > 1:
        words += [Line("--gpus-per-node"), Line(str(plan.accelerators_per_process))]
    if options:
        words += [Line("--override-engine-args"), Line(json.dumps(options))]
    check_command(DYNAMO_TRTLLM, (DYNAMO_TRTLLM, *words))
    return model, words


def _llmd_command(plan: Plan, port: int) -> list[str]:
    """Return the command of a pod: of a group's leader or worker if a replica holds several machines."""
    model, words = _engine_words(plan)
    command: list[str] = in_kubernetes([Line("vllm"), Line("serve"), Line(model), *words])
    command += shlex.split(plan.address(port))
    if plan.nodes_per_replica == 1:
        return command
    return ["bash", "-c", _group_line(plan, shlex.join(command))]


def _group_line(plan: Plan, command: str) -> str:
    """Return the shell line of a pod in a group of a LeaderWorkerSet, which tells it its number and the leader."""
    every, workers = node_words(
        plan.engine,
        plan.nodes_per_replica,
        plan.accelerators_per_process,
        rank='"$LWS_WORKER_INDEX"',
        head='"$LWS_LEADER_ADDRESS"',
    )
    line = f'worker=""; [ "$LWS_WORKER_INDEX" = 0 ] || worker="{workers}"; '
    return f"{line}exec {command} {every} $worker"


def llmd_files(plan: Plan) -> dict[str, str]:
    """Return Helm values of llm-d's model service: decode pods with the plan's own image and command."""
    routing = {"servicePort": PORT, "proxy": {"enabled": False}}
    pods = {"decode": _llmd_pods(plan, PORT, {}), "prefill": {"create": False, "replicas": 0}}
    return _llmd_values([plan], routing, pods)


_SIDECAR_TARGET: Final = 8200
"""Port of an engine behind the sidecar that asks prefill pods for caches: the chart's own."""


def llmd_pool_files(parts: Sequence[Plan]) -> dict[str, str]:
    """Return Helm values of llm-d's model service with pods that prefill and pods that decode; a sidecar before each of
    the latter hands a prompt to the prefill pod that llm-d's scheduler names.

    Source: llm-d-modelservice@3051935, values.yaml (routing.proxy) and examples/values-pd.yaml.
    """
    proxy = {"enabled": True, "targetPort": _SIDECAR_TARGET, "connector": "nixlv2", "secure": False}
    pods: dict[str, Any] = {}
    for part in parts:
        role = part.option.role
        port = _SIDECAR_TARGET if role == "decode" else PORT
        pods[role] = _llmd_pods(part, port, variables(part, "$(POD_IP)", FIRST_CACHE_PORT))
    return _llmd_values(parts, {"servicePort": PORT, "proxy": proxy}, pods)


def _llmd_values(
    parts: Sequence[Plan], routing: Mapping[str, Any], pods: Mapping[str, Any]
) -> dict[str, str]:
    """Return the file of values for pods of one model."""
    first = parts[0]
    for part in parts:
        _check_stack(part, LLM_D, "llm-d")
    model, _ = _engine_words(first)
    values = {
        "multinode": any(part.nodes_per_replica > 1 for part in parts),
        "modelArtifacts": {
            "name": str(model),
            "uri": f"hf://{model}",
            "size": f"{math.ceil(_DOWNLOAD * first.download_bytes / GIB)}Gi",
            "labels": {"llm-d.ai/inference-serving": "true", "llm-d.ai/model": str(first.name)},
        },
        "accelerator": {"type": "nvidia"},
        "routing": routing,
        **pods,
    }
    return {"values.yaml": dump_yaml(_all_comments(parts, "llm-d"), values)}


def _llmd_pods(plan: Plan, port: int, told: Mapping[str, str]) -> dict[str, Any]:
    """Return the pods of one role, whose engine listens at `port`; pods that decode serve whole requests where none
    prefills."""
    nodes = plan.nodes_per_replica
    ranks = max(1, plan.option.replica_layout.data_parallel // nodes)
    command = _llmd_command(plan, port)
    resources = _resources(plan)
    own_address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    named = [{"name": name, "value": value} for name, value in told.items()]
    container = {
        "name": "vllm",
        "image": plan.image,
        "modelCommand": "custom",
        "command": command[:1],
        "args": command[1:],
        "env": [_TOKEN, *([own_address, *named] if named else [])],
        "ports": [{"containerPort": port, "name": "metrics", "protocol": "TCP"}],
        "resources": requests_and_limits(plan, resources),
        "mountModelVolume": False,
    }
    pod = pod_of(plan)
    own = pod["containers"][0]
    probed = {"httpGet": {"path": HEALTH, "port": port}}
    container |= {key: own[key] | probed for key in ("startupProbe", "readinessProbe")}
    container["volumeMounts"] = own["volumeMounts"]
    if nodes > 1:
        # The chart gives leaders and workers one template, and workers answer no requests.
        container = {key: value for key, value in container.items() if not key.endswith("Probe")}
    return {
        "create": True,
        "replicas": plan.num_replicas,
        "parallelism": {
            "tensor": max(1, plan.accelerators_per_process // ranks),
            "data": ranks * nodes if ranks > 1 else 1,
            "dataLocal": ranks,
            "workers": nodes,
        },
        **placement(plan),
        "containers": [container],
        "volumes": pod["volumes"],
        "monitoring": {"podmonitor": {"enabled": True, "portName": "metrics", "path": "/metrics"}},
    }


_TOKEN: Final = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": _SECRET, "key": "token", "optional": True}},
}
"""Environment variable with the hub's token, from a Secret that may be absent."""


def _resources(plan: Plan, num_replicas: int = 1) -> dict[str, str]:
    """Return the resources of one pod that holds replicas, or a part of one."""
    return {
        "cpu": str(plan.num_cpus * num_replicas),
        "memory": f"{plan.memory_gib * num_replicas}Gi",
        "nvidia.com/gpu": str(plan.accelerators_per_process * num_replicas),
    }


def kserve_files(plan: Plan) -> dict[str, str]:
    """Return an InferenceService with a container of the plan, an autoscaler by requests in flight, and a monitor; for
    replicas on several machines an LLMInferenceService.

    Raises: AdvisorError: what KServe needs to know is in a local folder.
    """
    if plan.nodes_per_replica > 1:
        _check_stack(plan, KSERVE_POOLS, "kserve")
        comments = _comments(plan, *stack_doubts(plan, "kserve"))
        return _llm_service(plan.name, (plan,), _llm_workload(plan, PORT), comments)
    _check_stack(plan, KSERVE, "kserve")
    labels = {"app": str(plan.name)}
    pod = pod_of(plan)
    container = pod["containers"][0]
    container["name"] = "kserve-container"
    container["command"] = [*in_kubernetes(plan.all_words()), *_METRICS_ON.get(plan.engine.id, ())]
    container["ports"] = [{"containerPort": PORT, "protocol": "TCP"}]
    most = _MOST_REPLICAS_FACTOR * plan.num_replicas
    documents: list[dict[str, Any]] = []
    if plan.launch.config:
        text = plan.options_text(in_container=True)
        documents.append(config_map(plan.name, labels, {plan.config_name: text}))
    documents.append(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": plan.name,
                "labels": labels,
                "annotations": {
                    "serving.kserve.io/deploymentMode": "Standard",
                    "serving.kserve.io/autoscalerClass": "external",
                },
            },
            "spec": {"predictor": {"minReplicas": plan.num_replicas, "maxReplicas": most, **pod}},
        }
    )
    documents += _autoscaler(plan, labels, most)
    return {"plan.kserve.yaml": dump_yaml(_comments(plan, *stack_doubts(plan, "kserve")), *documents)}


_KSERVE_MODEL: Final = "/mnt/models"
"""Folder into which KServe's storage initializer puts a model, in the leader and in workers."""
_KSERVE_TLS: Final = (
    "{{ if .GlobalConfig.EnableTLS }}--ssl-certfile /var/run/kserve/tls/tls.crt "
    "--ssl-keyfile /var/run/kserve/tls/tls.key{{ end }}"
)
"""Certificates as KServe's templates name them, for clusters whose configuration asks for TLS."""
_KSERVE_NAMES: Final = (
    '--served-model-name "{{ .Spec.Model.Name }}" '
    '"publishers/{{ .ObjectMeta.Namespace }}/models/{{ .Spec.Model.Name }}"'
)
"""Names by which KServe's router asks for the model, as its templates write them; KServe fills them in."""


_BEHIND_SIDECAR: Final = 8001
"""Port of an engine behind the sidecar that asks prefill pods for caches, as KServe's templates have it."""


def _llm_service(
    name: str, parts: Sequence[Plan], workloads: Mapping[str, Any], comments: Sequence[Line]
) -> dict[str, str]:
    """Return an LLMInferenceService of the workloads of one model."""
    model, _ = _engine_words(parts[0])
    content = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": name},
        "spec": {
            "model": {"uri": f"hf://{model}", "name": str(model)},
            "router": {"gateway": {}, "route": {}, "scheduler": {}},
            **workloads,
        },
    }
    return {"plan.kserve.yaml": dump_yaml(comments, content)}


def kserve_pool_files(name: str, parts: Sequence[Plan]) -> dict[str, str]:
    """Return an LLMInferenceService with pods that prefill and pods that decode. KServe's own templates start vLLM,
    the sidecar before pods that decode, and the scheduler that names a pod that prefills.

    Raises: AdvisorError: another engine than vLLM, or pools of unlike checkpoints.
        Source: kserve/kserve@aaac4e2 config/llmisvcconfig and pkg/controller/v1alpha2/llmisvc/scheduler.go.
    """
    for part in parts:
        _check_stack(part, KSERVE_POOLS, "kserve")
    _check_alike(
        [_engine_words(part)[0] for part in parts],
        "kserve",
        "an LLMInferenceService names one model for both",
    )
    decode, prefill = ({part.option.role: part for part in parts}[role] for role in ("decode", "prefill"))
    workloads = {**_llm_workload(decode, _BEHIND_SIDECAR), "prefill": _llm_workload(prefill, PORT)}
    return _llm_service(name, parts, workloads, _all_comments(parts, "kserve"))


def _llm_workload(plan: Plan, port: int) -> dict[str, Any]:
    """Return the pods of one pool. A replica on several machines is a group of pods, one for each machine, with the
    plan's own command in place of the template's, which spreads data-parallel ranks alone.

    The group has parallelism.data / parallelism.dataLocal pods: the first is told the number of machines.

    Source: kserve/kserve@aaac4e2 pkg/apis/serving/v1alpha2/llm_inference_service_types_func.go, GetSize;
        pkg/controller/v1alpha2/llmisvc/config_merge.go; config/llmisvcconfig/config-llm-worker-data-parallel.yaml.
    """
    pods = _llm_pods(plan)
    if plan.nodes_per_replica == 1:
        return pods
    _, words = _engine_words(plan)
    command = f"vllm serve {_KSERVE_MODEL} {_KSERVE_NAMES} {shlex.join(in_kubernetes(words))}"
    command += f" --port {port} {_KSERVE_TLS}"
    (container,) = pods["template"]["containers"]
    container |= {"command": ["/bin/bash", "-c", _group_line(plan, command)], "args": []}
    worker = dict(container)
    worker.pop("startupProbe")  # workers answer no requests
    return {
        "parallelism": {"data": plan.nodes_per_replica, "dataLocal": 1},
        **pods,
        "worker": {**pods["template"], "containers": [worker]},
    }


_LLM_SHM: Final = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
"""Shared memory of an LLMInferenceService's pods, by the name of its templates, which grant 1 GiB."""


def _llm_pods(plan: Plan) -> dict[str, Any]:
    """Return the pods of one pool, as far as they differ from KServe's template: its script adds the model, the port
    and the served name, and reads the arguments again as a shell does."""
    _, words = _engine_words(plan)
    own = pod_of(plan)["containers"][0]
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    told = variables(plan, "$(POD_IP)", FIRST_CACHE_PORT)
    container = {
        "name": "main",
        "image": plan.image,
        "args": in_kubernetes([Line(shlex.quote(word)) for word in words]),
        "env": [_TOKEN, address, *({"name": key, "value": value} for key, value in told.items())],
        "resources": own["resources"],
        "securityContext": {"runAsNonRoot": False},  # the publishers' images run as root
        "startupProbe": {key: value for key, value in own["startupProbe"].items() if key != "httpGet"},
    }
    template = {**placement(plan), "containers": [container], "volumes": [_LLM_SHM]}
    return {"replicas": plan.num_replicas, "template": template}


_IN_FLIGHT: Final = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}
"""Metric of requests in flight by engine. Source: vLLM, docs/usage/metrics.md; SGLang, production_metrics.md."""


_METRICS_ON: Final = {"sglang": ("--enable-metrics",)}
"""Options with which an engine has /metrics, where it has none by default. Source: sglang 0.5.23,
srt/arg_groups/fields/observability.py."""


def _autoscaler(plan: Plan, labels: Mapping[str, str], most: int) -> list[dict[str, Any]]:
    """Return a HorizontalPodAutoscaler at the planned requests in flight, and a ServiceMonitor."""
    documents: list[dict[str, Any]] = []
    shown = plan.option.performance
    in_flight = getattr(shown, "mean_batch", None)
    metric = _IN_FLIGHT.get(plan.engine.id, "")
    if metric and in_flight:
        target = {"type": "AverageValue", "averageValue": str(max(1, math.ceil(in_flight)))}
        documents.append(
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": plan.name, "labels": dict(labels)},
                "spec": {
                    "scaleTargetRef": {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": f"{plan.name}-predictor",
                    },
                    "minReplicas": plan.num_replicas,
                    "maxReplicas": most,
                    "metrics": [
                        {
                            "type": "Pods",
                            "pods": {"metric": {"name": metric.replace(":", "_")}, "target": target},
                        }
                    ],
                },
            }
        )
    documents.append(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": plan.name, "labels": dict(labels)},
            "spec": {
                "selector": {"matchLabels": {"serving.kserve.io/inferenceservice": str(plan.name)}},
                "endpoints": [{"targetPort": PORT, "path": "/metrics", "interval": _SCRAPE_INTERVAL}],
            },
        }
    )
    return documents


def _serve_config(parts: Sequence[Plan]) -> str:
    """Return the configuration of Ray Serve: the model of each pool, its engine's arguments, the number of replicas.

    Attention in data-parallel ranks has an application of its own, in which each rank is a server; so have pools that
    prefill and decode, which know each other's addresses through Ray.

    Source: ray 2.60.0, ray/llm/_internal/serve/serving_patterns: data_parallel (builder.py, dp_server.py) and
        prefill_decode (builder.py, PDServingArgs).
    """
    configs = [_llm_config(part) for part in parts]
    arguments: dict[str, Any] = {"llm_configs": configs}
    pattern = ""
    if len(parts) > 1:
        pattern = "pd_"
        arguments = {
            f"{part.option.role}_config": config for part, config in zip(parts, configs, strict=True)
        }
    elif parts[0].option.replica_layout.data_parallel > 1:
        pattern = "dp_"
        arguments = {"llm_config": configs[0]}
    application = {
        "name": "llm",
        "import_path": f"ray.serve.llm:build_{pattern}openai_app",
        "route_prefix": "/",
        "args": arguments,
    }
    text: str = yaml.safe_dump({"applications": [application]}, sort_keys=False)
    return text


_ADAPTERS: Final = "max_cpu_loras"
"""Argument of vLLM's engine that holds the adapters of a replica."""
_ADAPTER_BUCKET: Final = "s3://ADAPTERS"
"""Folder of adapters, which Ray reads from a store of objects alone. Source: ray 2.60.0, ray/llm/_internal/serve/core/
configs/llm_config.py, LoraConfig."""


def _llm_config(plan: Plan) -> dict[str, Any]:
    """Return a pool as Ray Serve LLM describes it, in the words of the engine's release that it pins."""
    model, words = _engine_words(plan)
    words = list(map(Line, words_in_release(plan.engine.id, words, RAY.engines[plan.engine.id])))
    layout = plan.option.replica_layout
    arguments = engine_arguments(words)
    adapters = {}
    if (slots := arguments.get(_ADAPTERS)) is not None:
        adapters["lora_config"] = {
            "dynamic_lora_loading_path": _ADAPTER_BUCKET,
            "max_num_adapters_per_replica": slots,
        }
    return {
        "model_loading_config": {"model_id": str(plan.model), "model_source": str(model)},
        "engine_kwargs": arguments,
        **adapters,
        "deployment_config": {
            "num_replicas": plan.num_replicas,
            "max_ongoing_requests": math.ceil((layout.max_num_seqs or 1) / layout.data_parallel),
        },
    }


_HEAD_PORTS: Final = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": PORT}
"""Ports of Ray's head by name. KubeRay adds its defaults only where none is named, and starts the application through
the port `dashboard`. Source: ray-project/kuberay@4cf0142 ray-operator/controllers/ray/common/service.go."""


def ray_files(plan: Plan) -> dict[str, str]:
    """Return a RayService of Ray Serve LLM; Ray places the ranks of a replica on the workers' accelerators."""
    return ray_pool_files(plan.name, [plan])


def ray_pool_files(name: str, parts: Sequence[Plan]) -> dict[str, str]:
    """Return a RayService whose pools prefill and decode; a single part serves whole requests.

    Raises: AdvisorError: pools are of unlike accelerators, which Ray could exchange.
    """
    for part in parts:
        _check_stack(part, RAY, "ray")
    kinds = [part.option.machine.accelerator for part in parts]
    _check_alike(kinds, "ray", "Ray places ranks on any accelerator of its cluster")
    small = {"cpu": "4", "memory": "16Gi"}
    head = {
        "name": "head",
        **_RAY_CONTAINER,
        "ports": [{"containerPort": port, "name": name} for name, port in _HEAD_PORTS.items()],
        "resources": {"limits": dict(small), "requests": dict(small)},
    }
    cluster = {
        "rayVersion": RAY.release,
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
            "template": {"spec": {"containers": [head]}},
        },
        "workerGroupSpecs": [_ray_group(part, part.option.role if parts[1:] else "") for part in parts],
    }
    content = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name},
        "spec": {"serveConfigV2": _serve_config(parts), "rayClusterConfig": cluster},
    }
    return {"plan.ray.yaml": dump_yaml(_all_comments(parts, "ray"), content)}


_RAY_CONTAINER: Final[Mapping[str, Any]] = {"image": _RAY_IMAGE, "env": [_TOKEN]}


def _ray_group(plan: Plan, role: str) -> dict[str, Any]:
    """Return the worker group of a pool: a pod for each machine, with the accelerators of its replicas."""
    limits = _resources(plan, plan.replicas_per_host)
    worker = {
        "name": "worker",
        **_RAY_CONTAINER,
        "resources": requests_and_limits(plan, limits),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    pod = {
        **placement(plan),
        "containers": [worker],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return {
        "groupName": role or "accelerators",
        "replicas": plan.num_hosts,
        "minReplicas": plan.num_hosts,
        "maxReplicas": plan.num_hosts,
        "rayStartParams": {"num-gpus": limits["nvidia.com/gpu"]},
        "template": {"spec": pod},
    }


_SPECULATION: Final = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
"""Keys of vLLM's speculative_config by the option that is short for each."""
_SERVER_ONLY: Final = ("--lora-modules",)
"""Options of vLLM's server that its engine does not take."""


def engine_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Return options of `vllm serve` as arguments of vLLM's engine.

    Source: vLLM 0.33.0, vllm/engine/arg_utils.py: an option is the argument's name with hyphens.
    """
    found: dict[str, Any] = {}
    speculation: dict[str, Any] = {}
    place = 0
    while place < len(words):
        name = words[place]
        place += 1
        values = []
        while place < len(words) and not words[place].startswith("--"):
            values.append(words[place])
            place += 1
        if name in _SERVER_ONLY:
            continue
        value: Any = True if not values else _value(values[0])
        if name in _SPECULATION:
            speculation[_SPECULATION[name]] = value
        elif name.startswith("--no-"):
            found[name[5:].replace("-", "_")] = False
        else:
            found[name[2:].replace("-", "_")] = value
    return found | ({"speculative_config": speculation} if speculation else {})


def _value(text: str) -> Any:
    """Return an option's value: a number or a JSON document as such, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return str(text)
