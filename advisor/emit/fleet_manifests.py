"""Pools that differ, as YAML: Docker Compose, Kubernetes, SkyPilot."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.legible import Line
from advisor.emit import nginx
from advisor.emit.fleet import (
    FIRST_CACHE_PORT,
    ROUTER_FILE,
    Address,
    FleetPlan,
    share_of,
    variable_of,
    variables,
    worker_options,
)
from advisor.emit.fleet_scripts import command_files
from advisor.emit.manifests import (
    compose_machines,
    compose_replica,
    config_map,
    dump_yaml,
    in_compose,
    in_kubernetes,
    own_mounts,
    pod_notes,
    pod_of,
    replica_documents,
    service,
    sky_resources,
)
from advisor.emit.manifests import skypilot_files as skypilot_of
from advisor.emit.plan import HEALTH, MOUNTED
from advisor.emit.shell import FIRST_PORT, script
from advisor.emit.spanning import (
    CONTROLLER_NOTE,
    HEAD_TOKEN,
    RDMA_NOTE,
    compose_services,
    leader_worker_set,
    leaders_name,
)
from advisor.emit.spanning import skypilot_files as spanning_skypilot

_PYTHON: Final = "python:3.12-slim"


def _router_container(fleet: FleetPlan, addresses: Sequence[Address]) -> tuple[str, list[Line]]:
    """Return image and command of the router in a container."""
    flags = fleet.whole.engine.flags
    if fleet.has_nginx:
        return nginx.IMAGE, [*map(Line, ("nginx", "-c", f"{MOUNTED}/{nginx.FILE}", "-g", "daemon off;"))]
    command = fleet.router(addresses)
    if not flags.pool_router_install:
        words = shlex.split(command.replace(ROUTER_FILE, f"{MOUNTED}/{ROUTER_FILE}"))
        return fleet.whole.image, [*map(Line, words)]
    return _PYTHON, [*map(Line, ("sh", "-c", f"{flags.pool_router_install} && exec {command}"))]


def compose_files(fleet: FleetPlan) -> dict[str, str]:
    """Return Compose files: one with the router for one machine; for several, one per pool and a script with the
    router."""
    addresses = list(fleet.addresses())
    services = dict[str, dict[str, Any]]()
    for part in fleet.parts:
        share = share_of(part)
        if part.nodes_per_replica > 1:
            address = worker_options(part, FIRST_PORT, FIRST_CACHE_PORT)
            told = variables(part, HEAD_TOKEN, FIRST_CACHE_PORT)
            services[share] = compose_services(part, FIRST_PORT, address, told)
            continue
        each = part.devices_per_replica
        for place in range(fleet.per_machine(part)):
            number = fleet.first(part) + place
            before = fleet.devices_before(part) + place * each
            cache_port = FIRST_CACHE_PORT + number * fleet.cache_stride
            host = "localhost" if fleet.is_shared else "${HOST:?address of this machine}"
            one = compose_replica(part, [str(before + k) for k in range(each)], is_alone=False)
            words = [
                *part.words(in_container=True),
                *map(Line, shlex.split(worker_options(part, FIRST_PORT + number, cache_port))),
            ]
            one["command"] = in_compose(words[1:])
            one["environment"] |= variables(part, host, cache_port)
            one["healthcheck"]["test"][1] = (
                f"curl --silent --fail http://localhost:{FIRST_PORT + number}{HEALTH} || exit 1"
            )
            services.setdefault(share, {})[f"{share}-{place}"] = {**one, "network_mode": "host"}
    files = fleet.router_files(addresses)
    if not fleet.is_shared:
        is_spanning = any(part.nodes_per_replica > 1 for part in fleet.parts)
        comments = (*fleet.comments, *((RDMA_NOTE,) if is_spanning else ()))
        for part in fleet.parts:
            share = share_of(part)
            count = part.num_replicas if part.nodes_per_replica == 1 else len(services[share])
            name = Line(f"{fleet.name}-{share}")
            files |= compose_machines(comments, name, services[share], count, f"{share}.")
        router = f"{fleet.hosts_note}{fleet.install()}exec {fleet.router(addresses)}\n"
        return files | {"router.sh": script(fleet.comments, router)}
    workers = {name: one for found in services.values() for name, one in found.items()}
    image, words = _router_container(fleet, addresses)
    router_service = {
        "image": image,
        "entrypoint": words[:1],
        "command": in_compose(words[1:]),
        "volumes": [f".:{MOUNTED}:ro"],
        "network_mode": "host",
        "depends_on": {name: {"condition": "service_healthy"} for name in workers},
        "restart": "unless-stopped",
    }
    whole = {"name": fleet.name, "services": {**workers, "router": router_service}}
    return files | {"compose.yaml": dump_yaml(fleet.comments, whole)}


def kubernetes_files(fleet: FleetPlan) -> dict[str, str]:
    """Return the router with its Service and, per pool, a StatefulSet, whose pods have names, or a Deployment with a
    Service if the router needs no names."""
    if fleet.has_nginx:
        apart = [
            document
            for part in fleet.parts
            for document in (
                leader_worker_set(part) if part.nodes_per_replica > 1 else replica_documents(part)
            )
        ]
        services = [
            Address(
                share_of(part), leaders_name(part) if part.nodes_per_replica > 1 else part.name, PORT, None
            )
            for part in fleet.parts
        ]
        return {"plan.k8s.yaml": dump_yaml(_with_needs(fleet), *apart, *_router_documents(fleet, services))}
    documents: list[dict[str, Any]] = []
    addresses = [
        Address(share_of(part), f"{part.name}-{place}.{part.name}", PORT, FIRST_CACHE_PORT)
        for part in fleet.parts
        for place in range(part.num_replicas)
    ]
    for part in fleet.parts:
        labels = {"app": part.name}
        if part.nodes_per_replica > 1:
            # The controller makes a headless Service, in which the leaders have names as pods of a StatefulSet do.
            told = variables(part, "$(LWS_LEADER_ADDRESS)", FIRST_CACHE_PORT)
            documents += leader_worker_set(part, worker_options(part, PORT, FIRST_CACHE_PORT), told)[:-1]
            continue
        pod = pod_of(part)
        if part.launch.config:
            text = part.options_text(in_container=True)
            documents.append(config_map(part.name, labels, {part.config_name: text}))
        container = pod["containers"][0]
        address = map(Line, shlex.split(worker_options(part, PORT, FIRST_CACHE_PORT)))
        container["command"] = in_kubernetes([*part.words(in_container=True), *address])
        if part.engine.flags.pool_env:
            own = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            named = variables(part, "$(POD_IP)", FIRST_CACHE_PORT)
            container["env"] += [own, *({"name": name, "value": value} for name, value in named.items())]
        spec = {
            "serviceName": part.name,
            "replicas": part.num_replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        meta = {"name": part.name, "labels": labels}
        documents.append({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
        documents.append(service(part.name, labels, clusterIP="None", publishNotReadyAddresses=True))
    documents += _router_documents(fleet, addresses)
    return {"plan.k8s.yaml": dump_yaml(_with_needs(fleet), *documents)}


def _with_needs(fleet: FleetPlan) -> tuple[Line, ...]:
    """Return the comments of a manifest, with node labels to look up and the controller that workers of several
    machines need."""
    spans = any(part.nodes_per_replica > 1 for part in fleet.parts)
    labels = dict.fromkeys(line for part in fleet.parts for line in pod_notes(part))
    return (*fleet.comments, *labels, *((CONTROLLER_NOTE,) if spans else ()))


def _router_documents(fleet: FleetPlan, addresses: Sequence[Address]) -> list[dict[str, Any]]:
    name = f"{fleet.name}-router"
    labels = {"app": name}
    image, words = _router_container(fleet, addresses)
    files = fleet.router_files(addresses)
    resources = {"cpu": "4", "memory": "8Gi"}
    container: dict[str, Any] = {
        "name": "router",
        "image": image,
        "command": words,
        "ports": [{"containerPort": PORT}],
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 10},
    }
    pod: dict[str, Any] = {"containers": [container]}
    documents = []
    if files:
        documents.append(config_map(name, labels, files))
        container["volumeMounts"] = [
            {"name": "config", "mountPath": f"{MOUNTED}/{fleet.router_file}", "subPath": fleet.router_file}
        ]
        pod["volumes"] = [{"name": "config", "configMap": {"name": name}}]
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    meta = {"name": name, "labels": labels}
    documents.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    return [*documents, service(fleet.name, labels)]


def skypilot_files(fleet: FleetPlan) -> dict[str, str]:
    """Return a SkyPilot service whose one replica is the machine that holds both pools. Pools behind nginx on several
    machines become one service each, and a script that starts the router.

    Raises: AdvisorError: several machines hold two pools, between which SkyPilot promises no network for caches.
    """
    if not fleet.is_shared and fleet.has_nginx:
        return _service_of_each(fleet)
    if not fleet.is_shared:
        raise AdvisorError(
            "workers on several machines behind a router of their own are no service of SkyPilot",
            why="its replicas do not know each other, and its router treats all requests alike",
            fix="--emit k8s, or --emit slurm",
        )
    files = command_files(fleet)
    total = sum(part.num_replicas * part.accelerators_per_replica for part in fleet.parts)
    task: dict[str, Any] = {
        "name": fleet.name,
        "service": {
            "readiness_probe": {
                "path": "/v1/models",
                "initial_delay_seconds": max(part.start_s for part in fleet.parts),
            },
            "replicas": 1,
        },
        "resources": sky_resources(
            fleet.whole,
            total,
            sum(part.num_replicas * part.num_cpus for part in fleet.parts),
            sum(part.num_replicas * part.memory_gib for part in fleet.parts),
        ),
        "envs": {"HF_TOKEN": ""},
    }
    install = fleet.router_install
    names = [*files, *(name for part in fleet.parts for name in part.files() if name.endswith(".yaml"))]
    task["file_mounts"] = {f"{MOUNTED}/{name}": f"./{name}" for name in names}
    for part in fleet.parts:
        task["file_mounts"] |= own_mounts(part)
    for path in {part.local_path for part in fleet.parts if part.local_path is not None}:
        task["file_mounts"][path if path.startswith("/") else f"{MOUNTED}/{path.removeprefix('./')}"] = path
    task["run"] = f"{install + chr(10) if install else ''}cd {MOUNTED} && bash start.sh\n"
    return files | {"service.sky.yaml": dump_yaml(fleet.comments, task)}


def _service_of_each(fleet: FleetPlan) -> dict[str, str]:
    files = dict[str, str]()
    lines = list[str]()
    marks = dict[str, str]()
    for part in fleet.parts:
        share = share_of(part)
        write = spanning_skypilot if part.nodes_per_replica > 1 else skypilot_of
        files[f"{share}.sky.yaml"] = write(part)["service.sky.yaml"]
        lines.append(f"{variable_of(part)}=$(sky serve status --endpoint {part.name})\n")
        marks[share] = f"@{share}@"
    text = fleet.router_conf(marks).replace("$", "\\$")
    for part in fleet.parts:
        address = f"${{{variable_of(part)}#http://}}"
        text = text.replace(marks[share_of(part)], fleet.server_line(part, address, 1))
    body = "# Once both services are up: writes nginx.conf with their addresses and starts it.\n"
    body += f"{''.join(lines)}cat > {nginx.FILE} <<EOF\n{text}EOF\n{fleet.install()}exec {fleet.router([])}\n"
    return files | {"router.sh": script(fleet.comments, body)}
