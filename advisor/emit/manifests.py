"""Plans as YAML: Docker Compose, Kubernetes, SkyPilot."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_csv
from advisor.catalog.launch import PORT
from advisor.catalog.legible import Line
from advisor.catalog.prices import all_providers
from advisor.catalog.units import GIB
from advisor.emit import nginx
from advisor.emit.plan import ADAPTERS, CACHE, HEALTH, MODEL, MOUNTED, Plan
from advisor.emit.shell import comment_lines, quote_words, router_conf, router_files

_PRODUCT: Final = "nvidia.com/gpu.product"
_RESOURCE: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}

LAST: Final = "last.compose.yaml"
"""Compose file of the last machine, if it has fewer replicas than the others."""
_SKY_DISK_GIB: Final = 256
"""Disk that SkyPilot rents unless it is told otherwise [GiB]. Source: PyPI skypilot 0.14.1, sky/resources.py."""
_SPARE_DISK_GIB: Final = 100
"""Disk beside the weights [GiB]: the system and the image. Own assumption."""


class _Readable(yaml.SafeDumper):  # type: ignore[misc]  # the library has no types
    """YAML dumper that repeats shared values instead of using aliases, and writes multi-line texts as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_multi_representer(str, _text)
_Readable.add_representer(str, _text)


def dump_yaml(comments: Sequence[Line], *documents: dict[str, Any]) -> str:
    """Return YAML documents below the comment lines."""
    text: str = yaml.dump_all(
        documents, Dumper=_Readable, sort_keys=False, width=110, explicit_start=len(documents) > 1
    )
    return comment_lines(comments) + text


def compose_files(plan: Plan) -> dict[str, str]:
    """Return Compose services for one machine: its replicas, each on its accelerators, and the router."""
    services: dict[str, Any] = {}
    names = [f"replica-{place}" for place in range(plan.replicas_per_host)]
    each = plan.devices_per_replica
    for place, name in enumerate(names):
        devices = [str(place * each + number) for number in range(each)]
        services[name] = compose_replica(plan, devices, is_alone=plan.num_replicas == 1)
        if plan.num_hosts > 1:
            services[name]["ports"] = [f"{PORT + 1 + place}:{PORT}"]
    files = {}
    if plan.num_replicas > 1 and plan.num_hosts == 1:
        servers = "\n    ".join(f"server {name}:{PORT};" for name in names)
        files["nginx.conf"] = comment_lines(plan.comments) + router_conf(plan, servers)
        services["router"] = {
            "image": nginx.IMAGE,
            "ports": [f"{PORT}:{PORT}"],
            "volumes": ["./nginx.conf:/etc/nginx/nginx.conf:ro"],
            "depends_on": {name: {"condition": "service_healthy"} for name in names},
            "restart": "unless-stopped",
        }
    elif plan.num_hosts > 1:
        files |= router_files(plan)
    return {**compose_machines(plan.comments, plan.name, services, plan.num_replicas), **files}


def compose_machines(
    comments: Sequence[Line], name: Line, services: Mapping[str, Any], num_replicas: int, prefix: str = ""
) -> dict[str, str]:
    """Return the Compose file of a machine, and that of the last one if it has fewer of the services."""
    files = {f"{prefix}compose.yaml": dump_yaml(comments, {"name": name, "services": dict(services)})}
    if num_replicas > len(services) and (last := num_replicas % len(services)):
        few = dict(itertools.islice(services.items(), last))
        files[f"{prefix}{LAST}"] = dump_yaml(comments, {"name": name, "services": few})
    return files


def in_compose(words: Sequence[Line]) -> list[str]:
    """Return command words with `$` escaped, so that Docker Compose replaces no variable."""
    return [word.replace("$", "$$") for word in words]


def in_kubernetes(words: Sequence[Line]) -> list[str]:
    """Return command words with `$` escaped, so that Kubernetes replaces no variable."""
    return [word.replace("$(", "$$(") for word in words]


def _compose_volumes(plan: Plan) -> list[Any]:
    """Return the volumes of a service: the cache of weights, the folder of the plan, and a local model outside it."""
    found: list[Any] = [f"${{HOME}}/.cache/huggingface:{CACHE}", f".:{MOUNTED}"]
    if plan.model_folder:
        source = plan.model_folder.replace("$", "$$")
        found.append({"type": "bind", "source": source, "target": MODEL, "read_only": True})
    if plan.adapter_folder:
        source = plan.adapter_folder.replace("$", "$$")
        found.append({"type": "bind", "source": source, "target": ADAPTERS, "read_only": True})
    return found


def compose_replica(plan: Plan, devices: list[str], *, is_alone: bool) -> dict[str, Any]:
    """Return the Compose service of one replica on its accelerators."""
    words = plan.all_words()
    service: dict[str, Any] = {
        "image": plan.image,
        "entrypoint": [words[0]],
        "command": in_compose(words[1:]),
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}"},
        "volumes": _compose_volumes(plan),
        "ipc": "host",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD-SHELL", f"curl --silent --fail http://localhost:{PORT}{HEALTH} || exit 1"],
            "interval": "10s",
            "timeout": "5s",
            "retries": 6,
            "start_period": f"{plan.start_s}s",
        },
        "deploy": {"resources": {"limits": {"cpus": str(plan.num_cpus), "memory": f"{plan.memory_gib}g"}}},
    }
    if is_alone:
        service["ports"] = [f"{PORT}:{PORT}"]
    if plan.vendor == "nvidia":
        reserved = {"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}
        service["deploy"]["resources"]["reservations"] = {"devices": [reserved]}
    else:
        service["devices"] = ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"]
        service["group_add"] = ["video"]
        service["environment"][plan.visible] = ",".join(devices)
    return service


def kubernetes_files(plan: Plan) -> dict[str, str]:
    """Return a manifest of a Deployment with one pod per replica, and its Service."""
    return {"plan.k8s.yaml": dump_yaml((*plan.comments, *pod_notes(plan)), *replica_documents(plan))}


def replica_documents(plan: Plan) -> list[dict[str, Any]]:
    """Return the Deployment and the Service as YAML documents."""
    labels = {"app": plan.name}
    documents: list[dict[str, Any]] = []
    if plan.launch.config:
        text = plan.options_text(in_container=True)
        documents.append(config_map(plan.name, labels, {plan.config_name: text}))
    documents += [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": plan.name, "labels": labels},
            "spec": {
                "replicas": plan.num_replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod_of(plan)},
            },
        },
        service(plan.name, labels),
    ]
    return documents


def service(name: str, labels: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Return a Kubernetes Service that reaches the pods with `labels`."""
    ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
    spec = {**more, "selector": labels, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": spec}


def config_map(name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> dict[str, Any]:
    """Return a Kubernetes ConfigMap with files for the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": data,
    }


_PROBE_TIMEOUT_S: Final = 30
"""Time that an engine has to answer a probe [s]. Kubernetes' own is 1 s, which a loaded server misses: SGLang generates
a token to answer (SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION), and the kubelet would restart it."""


def pod_of(plan: Plan) -> dict[str, Any]:
    """Return the specification of a pod with one replica."""
    probe = {"httpGet": {"path": HEALTH, "port": PORT}, "timeoutSeconds": _PROBE_TIMEOUT_S}
    resources = {
        "cpu": str(plan.num_cpus),
        "memory": f"{plan.memory_gib}Gi",
        _RESOURCE[plan.vendor]: str(plan.devices_per_process),
    }
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "cache", "emptyDir": {}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "cache", "mountPath": CACHE},
    ]
    if plan.model_folder:
        volumes.append({"name": "model", "persistentVolumeClaim": {"claimName": "model"}})
        mounts.append({"name": "model", "mountPath": MODEL, "readOnly": True})
    if plan.adapter_folder:
        volumes.append({"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters"}})
        mounts.append({"name": "adapters", "mountPath": ADAPTERS, "readOnly": True})
    if plan.own_paths:
        volumes.append({"name": "plan", "persistentVolumeClaim": {"claimName": "models"}})
        mounts.append({"name": "plan", "mountPath": MOUNTED})
    if plan.launch.config:
        volumes.append({"name": "config", "configMap": {"name": plan.name}})
        mounts.append(
            {"name": "config", "mountPath": f"{MOUNTED}/{plan.config_name}", "subPath": plan.config_name}
        )
    token = {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}
    container = {
        "name": "engine",
        "image": plan.image,
        "command": in_kubernetes(plan.all_words()),
        "ports": [{"containerPort": PORT}],
        "env": [{"name": "HF_TOKEN", "valueFrom": token}],
        "resources": requests_and_limits(plan, resources),
        "startupProbe": {**probe, "periodSeconds": 10, "failureThreshold": plan.start_s // 10},
        "readinessProbe": {**probe, "periodSeconds": 10},
        "livenessProbe": {**probe, "periodSeconds": 30, "failureThreshold": 3},
        "volumeMounts": mounts,
    }
    return {**placement(plan), "containers": [container], "volumes": volumes}


def requests_and_limits(plan: Plan, resources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what a pod asks of a node and may use, and the disk that the node must have for its checkpoint."""
    disk = {"ephemeral-storage": f"{plan.disk_gib}Gi"} if plan.disk_gib else {}
    return {"requests": {**resources, **disk}, "limits": dict(resources)}


@functools.cache
def _names() -> Mapping[str, Mapping[str, str]]:
    """Return the names of accelerators on schedulers, by accelerator. Source: data/support/scheduler_names.csv."""
    rows = read_csv(SUPPORT_FOLDER / "scheduler_names.csv", ("accelerator", "label", "skypilot"))
    return {cells["accelerator"]: cells for _, cells in rows}


def placement(plan: Plan) -> dict[str, Any]:
    """Return the part of a pod that chooses its node: the label of the planned accelerator, if it is known, and a
    toleration of the taint that keeps other pods off such nodes."""
    known = _names().get(plan.option.machine.accelerator, {})
    toleration = {"key": _RESOURCE[plan.vendor], "operator": "Exists", "effect": "NoSchedule"}
    selector = {"nodeSelector": {_PRODUCT: known["label"]}} if known.get("label") else {}
    return {**selector, "tolerations": [toleration]}


def pod_notes(plan: Plan) -> tuple[Line, ...]:
    """Return comments on what pods need of the cluster: a label by which they find the planned accelerator, where none
    is known, and RDMA devices, where several hold a replica."""
    name = plan.option.machine.accelerator
    notes = []
    if "nodeSelector" not in placement(plan):
        notes.append(
            f"verify: pods run on nodes of {name} only; its node label is not known, add a nodeSelector"
        )
    if plan.nodes_per_replica > 1:
        notes.append(
            "first: give the pods your cluster's resource of RDMA devices, such as rdma/ib: without it NCCL takes TCP"
        )
    return tuple(map(Line, notes))


def skypilot_files(plan: Plan) -> dict[str, str]:
    """Return a SkyPilot service, which brings its own router and replicas."""
    task: dict[str, Any] = {
        "name": plan.name,
        "service": {
            "readiness_probe": {"path": HEALTH, "initial_delay_seconds": plan.start_s},
            "replicas": plan.num_replicas,
        },
        "resources": sky_resources(plan, plan.accelerators_per_replica, plan.num_cpus, plan.memory_gib),
        "envs": {"HF_TOKEN": ""},
    }
    task |= sky_mounts(plan)
    task["run"] = quote_words(plan.all_words()) + "\n"
    return {"service.sky.yaml": dump_yaml(plan.comments, task)}


def sky_mounts(plan: Plan) -> dict[str, Any]:
    """Return the file mounts of a SkyPilot task: options file, local model, weights that a script makes, heads and
    adapters; empty if it needs none."""
    files = [plan.config_name] if plan.launch.config else []
    mounts = {f"{MOUNTED}/{name}": f"./{name}" for name in files} | own_mounts(plan)
    path = plan.local_path
    if path is not None and path in plan.launch.argv:
        mounts[MODEL if plan.model_folder else f"{MOUNTED}/{path.removeprefix('./')}"] = path
    if plan.adapter_folder:
        mounts[ADAPTERS] = plan.adapter_folder
    return {"file_mounts": mounts} if mounts else {}


def own_mounts(plan: Plan) -> dict[str, str]:
    """Return the mounts of files that lie beside the plan's own, by their path in the container."""
    return {f"{MOUNTED}/{path[2:]}": str(path) for path in plan.own_paths}


def sky_resources(plan: Plan, num_accelerators: int, num_cpus: int, memory_gib: int) -> dict[str, Any]:
    """Return the resources that SkyPilot rents for one replica of a service, from the provider that was priced.

    Raises: AdvisorError: SkyPilot has no name for the accelerator, or joins no machines of the provider.
    """
    offer = plan.option.offer
    seller = all_providers().get(offer.provider) if offer else None
    if seller and plan.nodes_per_replica > 1 and not seller.skypilot_joins:
        raise AdvisorError(
            f"SkyPilot joins no machines of {seller.name}",
            why=f"each replica is on {plan.nodes_per_replica} of them",
            fix="--emit command",
        )
    found = {
        "accelerators": f"{_sky_name(plan)}:{num_accelerators}",
        "cpus": f"{num_cpus}+",
        "memory": f"{memory_gib}+",
        "image_id": f"docker:{plan.image}",
        "ports": PORT,
    }
    disk_gib = math.ceil(_SPARE_DISK_GIB + plan.download_bytes / GIB)
    found |= {"disk_size": disk_gib} if disk_gib > _SKY_DISK_GIB else {}
    found |= {"infra": seller.skypilot} if seller and seller.skypilot else {}
    return found | ({"use_spot": True} if offer and offer.term == "spot" else {})


def sky_doubts(plan: Plan) -> tuple[str, ...]:
    """Return what to verify of a service for SkyPilot: where it rents, if not from the provider that was priced, and on
    which accelerator, if its name for the planned one means others of that provider too."""
    offer = plan.option.offer
    seller = all_providers().get(offer.provider) if offer else None
    if offer is None:
        return ()
    if seller and seller.skypilot:
        known = _sky_names().get((offer.provider, plan.option.machine.accelerator))
        if known is None or not known["also"]:
            return ()
        others = known["also"].replace(" ", ", ")
        return (
            f"verify: the priced machine is {offer.sku}; SkyPilot's {known['skypilot']} on {seller.name} may also be "
            f"{others}",
        )
    name = seller.name if seller else offer.provider
    return (
        f"verify: SkyPilot runs no services on {name}: it rents from a cloud of yours, at that one's price",
    )


@functools.cache
def _sky_names() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return SkyPilot's names that depend on the provider, by provider and accelerator.

    Source: data/support/skypilot_names.csv.
    """
    columns = ("provider", "accelerator", "skypilot", "also", "source")
    rows = read_csv(SUPPORT_FOLDER / "skypilot_names.csv", columns)
    return {(cells["provider"], cells["accelerator"]): cells for _, cells in rows}


def _sky_name(plan: Plan) -> str:
    """Return SkyPilot's name of the accelerator on the provider that was priced.

    Raises: AdvisorError: none is known.
    """
    name = plan.option.machine.accelerator
    offer = plan.option.offer
    seller = offer.provider if offer else ""
    known = _sky_names().get((seller, name)) or _names().get(name)
    if known is None or not known["skypilot"]:
        raise AdvisorError(f"SkyPilot rents no {name} under a name that is known", fix="--emit command")
    return known["skypilot"]
