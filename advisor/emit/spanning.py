"""Files of plans whose replicas hold several machines each: the processes of a replica, their ranks and addresses."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import node_words
from advisor.catalog.legible import Line
from advisor.emit.manifests import (
    compose_replica,
    config_map,
    dump_yaml,
    in_kubernetes,
    pod_notes,
    pod_of,
    service,
    sky_mounts,
    sky_resources,
)
from advisor.emit.plan import CACHE, HEALTH, MOUNTED, Plan
from advisor.emit.shell import (
    DOCKER_DEVICES,
    RDMA,
    all_there,
    comment_lines,
    mounted_model,
    quote_words,
    router_conf,
    script,
    srun,
)

_RANK: Final = '"$RANK"'
_HEAD: Final = '"$HEAD"'
SLURM_HEAD: Final = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)'
_NONE: Final[Mapping[str, str]] = {}
CONTROLLER_NOTE: Final = Line(
    "needs the LeaderWorkerSet controller: kubernetes-sigs/lws, its installation page"
)
RDMA_NOTE: Final = Line("put RDMA=/dev/null before the command on machines without /dev/infiniband")
_TOKEN: Final = "__RANK__"
HEAD_TOKEN: Final = "__HEAD__"
"""Words that stand for rank and address until variables of a form take their place."""


def _refuse_mpi(plan: Plan, form: str) -> None:
    """Refuse containers for engines whose processes start each other over MPI.

    Raises: AdvisorError: the engine is one of them.
    """
    if plan.is_mpi:
        raise AdvisorError(
            f"--emit {form} starts no replica of {plan.engine.name} on {plan.nodes_per_replica} machines",
            why="its processes start each other over MPI, which needs ssh between the containers",
            fix="--emit slurm, --emit dynamo or --emit command",
        )


def _port(plan: Plan) -> int:
    """Port of a replica: that of the clients, or the one after it behind a router."""
    return plan.port + (plan.num_replicas > 1)


def _words(plan: Plan, rank: str = _RANK, head: str = _HEAD) -> tuple[str, str]:
    """Return the words of every machine and those of the further ones, with ranks and addresses as written."""
    return node_words(
        plan.engine, plan.nodes_per_replica, plan.accelerators_per_process, rank=rank, head=head
    )


def ask_lines(plan: Plan) -> str:
    """Return the shell lines that ask for the number of the machine and the address of the first one."""
    last = plan.nodes_per_replica - 1
    _, workers = _words(plan)
    lines = (
        f"# On each of the {plan.nodes_per_replica} machines of a replica: RANK is 0 on the first, HEAD its address.\n"
        f': "${{RANK:?number of this machine in its replica, 0 to {last}}}"\n'
        ': "${HEAD:?address of the first machine of this replica}"\n'
    )
    return lines + (f'worker=""\n((RANK == 0)) || worker="{workers}"\n' if workers else "")


def ending(plan: Plan, address: str = "") -> str:
    """Return the words behind the command of one machine, with variables of the shell; `address` are the words for its
    ports, by default that of the clients."""
    every, workers = _words(plan)
    port = f'"${{PORT:-{_port(plan)}}}"'
    return f"{every}{' $worker' if workers else ''} {address or plan.address(port)}".rstrip()


def _start(plan: Plan) -> str:
    """Return the script that starts one machine's process, or all processes of a replica under MPI."""
    line = quote_words(plan.words())
    if not plan.is_mpi:
        return script(plan.comments, f"{ask_lines(plan)}exec {line} {ending(plan)}\n")
    nodes = plan.engine.flags.nodes
    assert nodes is not None
    each = plan.accelerators_per_process
    count = plan.nodes_per_replica
    body = (
        f"# On the first of the {count} machines of a replica, which reaches the others by ssh without a password.\n"
        f': "${{HOSTS:?names of the {count} machines, the first one first, separated by commas}}"\n'
        f'hosts=$(sed "s/,/:{each},/g; s/\\$/:{each}/" <<< "$HOSTS")\n'
        f'exec mpirun -n {each * count} -H "$hosts" {nodes.launcher} {line} {ending(plan)}\n'
    )
    return script(plan.comments, body)


def _nginx(plan: Plan) -> dict[str, str]:
    """Return the configuration of the router before the first machines of the replicas; empty for one replica."""
    if plan.num_replicas == 1:
        return {}
    places = range(1, plan.num_replicas + 1)
    servers = "\n    ".join(f"server HEAD_{place}:{_port(plan)};" for place in places)
    note = "# Put the names of the first machines of your replicas in place of HEAD_1 and so on.\n"
    return {"nginx.conf": f"{comment_lines(plan.comments)}{note}{router_conf(plan, servers)}"}


def command_files(plan: Plan) -> dict[str, str]:
    """Return one script for each machine of a replica, which takes its number and the first machine's address."""
    return {"start.sh": _start(plan)} | _nginx(plan)


def docker_files(plan: Plan) -> dict[str, str]:
    """Return one script that starts the container of one machine of a replica, on the network of the host."""
    _refuse_mpi(plan, "docker")
    return {"start.sh": script(plan.comments, docker_body(plan))} | _nginx(plan)


def docker_body(plan: Plan, address: str = "", variables: Mapping[str, str] = _NONE) -> str:
    """Return the shell lines that start the container of one machine of a replica."""
    words = plan.words(in_container=True)
    devices = ",".join(map(str, range(plan.devices_per_process)))
    env = "".join(f' --env {name}="{value}"' for name, value in variables.items())
    return (
        f"{ask_lines(plan)}devices={devices}\n"
        f'docker run --detach --name {plan.name}-"$RANK" --restart unless-stopped \\\n'
        f"  {DOCKER_DEVICES[plan.vendor]} {RDMA} --ipc host --network host \\\n"
        f"  --cpus {plan.num_cpus} --memory {plan.memory_gib}g --env HF_TOKEN{env} \\\n"
        f'  --volume "$HOME/.cache/huggingface":{CACHE} --volume "$PWD":{MOUNTED}{mounted_model(plan)} \\\n'
        f"  --entrypoint {shlex.quote(words[0])} {plan.image} \\\n"
        f"  {quote_words(words[1:])} {ending(plan, address)}\n"
    )


def compose_files(plan: Plan) -> dict[str, str]:
    """Return two Compose services by profile: the first machine of a replica, and each further one."""
    _refuse_mpi(plan, "compose")
    whole = {"name": plan.name, "services": compose_services(plan, _port(plan), plan.address(_port(plan)))}
    return {"compose.yaml": dump_yaml((*plan.comments, RDMA_NOTE), whole)} | _nginx(plan)


def compose_services(
    plan: Plan, port: int, address: str, variables: Mapping[str, str] = _NONE
) -> dict[str, Any]:
    """Return the services of a replica's first machine and of each further one, under the profiles head and worker.

    Compose fills in the variables of all services before it selects a profile, so that what only a worker needs must
    not be required: a worker without its number ends with an error of the engine, which shows the default.
    Source: docker/compose, issue 11977.
    """
    devices = [str(number) for number in range(plan.devices_per_process)]
    services: dict[str, Any] = {}
    head = "${HEAD:?address of the first machine of this replica}"
    for profile, rank in (("head", "0"), ("worker", _worker_rank(plan))):
        one = compose_replica(plan, devices, is_alone=False)
        every, workers = _words(plan, rank=_TOKEN, head=HEAD_TOKEN)
        more = [*shlex.split(every), *(shlex.split(workers) if profile == "worker" else [])]
        more += shlex.split(address)
        words = [word.replace("$", "$$") for word in plan.words(in_container=True)[1:]]
        one["command"] = [*words, *(word.replace(_TOKEN, rank).replace(HEAD_TOKEN, head) for word in more)]
        one |= {"profiles": [profile], "network_mode": "host", "ulimits": {"memlock": -1}}
        one["devices"] = [*one.get("devices", ()), "${RDMA:-/dev/infiniband}:/dev/infiniband"]
        if profile == "worker":
            del one["healthcheck"]  # only the first machine answers requests
        else:
            one["healthcheck"]["test"][1] = f"curl --silent --fail http://localhost:{port}{HEALTH} || exit 1"
        one["environment"] |= {name: value.replace(HEAD_TOKEN, head) for name, value in variables.items()}
        services[profile] = one
    return services


def _worker_rank(plan: Plan) -> str:
    """Return the number of a further machine in Compose files: a variable if there are several such machines."""
    last = plan.nodes_per_replica - 1
    return "1" if last == 1 else f"${{RANK:-RANK_1_TO_{last}_IS_MISSING}}"


def leader_worker_set(
    plan: Plan, address: str = "", variables: Mapping[str, str] = _NONE
) -> list[dict[str, Any]]:
    """Return a LeaderWorkerSet with a group of pods for each replica, and the Service of the leaders.

    `address` are the words for its ports, by default that of the clients.

    Source: kubernetes-sigs/lws, LWS_LEADER_ADDRESS and LWS_WORKER_INDEX in every container of a group.
    """
    labels = {"app": plan.name}
    documents: list[dict[str, Any]] = []
    if plan.launch.config:
        text = plan.options_text(in_container=True)
        documents.append(config_map(plan.name, labels, {plan.config_name: text}))
    pods = {}
    for role in ("leader", "worker"):
        pod = pod_of(plan)
        container = pod["containers"][0]
        every, workers = _words(plan, rank="$(LWS_WORKER_INDEX)", head="$(LWS_LEADER_ADDRESS)")
        more = [*every.split(), *(workers.split() if role == "worker" else [])]
        more += shlex.split(address or plan.address())
        container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
        container["command"] = [*in_kubernetes(plan.words(in_container=True)), *more]
        if role == "worker":
            for name in ("ports", "startupProbe", "readinessProbe", "livenessProbe"):
                del container[name]
        pods[role] = {"metadata": {"labels": {**labels, "role": role}}, "spec": pod}
    documents.append(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": plan.name, "labels": labels},
            "spec": {
                "replicas": plan.num_replicas,
                "leaderWorkerTemplate": {
                    "size": plan.nodes_per_replica,
                    "restartPolicy": "RecreateGroupOnPodRestart",
                    "leaderTemplate": pods["leader"],
                    "workerTemplate": pods["worker"],
                },
            },
        }
    )
    documents.append(service(leaders_name(plan), {**labels, "role": "leader"}))
    return documents


def leaders_name(plan: Plan) -> str:
    """Return the name of the Service that reaches the leaders of a LeaderWorkerSet.

    The controller makes a headless Service with the set's own name, in which pods of a group find their leader, and
    leaves a Service of that name alone if there is one. Source: kubernetes-sigs/lws@0f920e5,
    pkg/utils/controller/controller_utils.go, CreateHeadlessServiceIfNotExists.
    """
    return f"{plan.name}-leader"


def kubernetes_files(plan: Plan) -> dict[str, str]:
    """Return a manifest of a LeaderWorkerSet and its Service."""
    _refuse_mpi(plan, "k8s")
    comments = (*plan.comments, *pod_notes(plan), CONTROLLER_NOTE)
    return {"plan.k8s.yaml": dump_yaml(comments, *leader_worker_set(plan))}


def skypilot_files(plan: Plan) -> dict[str, str]:
    """Return a SkyPilot service whose replicas are clusters of several nodes; the first node answers."""
    _refuse_mpi(plan, "skypilot")
    task: dict[str, Any] = {
        "name": plan.name,
        "num_nodes": plan.nodes_per_replica,
        "service": {
            "readiness_probe": {"path": HEALTH, "initial_delay_seconds": plan.start_s},
            "replicas": plan.num_replicas,
        },
        "resources": sky_resources(plan, plan.accelerators_per_process, plan.num_cpus, plan.memory_gib),
        "envs": {"HF_TOKEN": ""},
        **sky_mounts(plan),
    }
    _, workers = _words(plan)
    every, _ = _words(plan, rank='"$SKYPILOT_NODE_RANK"')
    task["run"] = (
        'HEAD=$(head -n 1 <<< "$SKYPILOT_NODE_IPS")\n'
        + (f'worker=""\n[ "$SKYPILOT_NODE_RANK" = 0 ] || worker="{workers}"\n' if workers else "")
        + f"{quote_words(plan.words(in_container=True))} {every}{' $worker' if workers else ''} {plan.address()}\n"
    )
    return {"service.sky.yaml": dump_yaml(plan.comments, task)}


def slurm_directives(plan: Plan) -> tuple[str, ...]:
    """Return the directives of a job array with one job of several nodes for each replica."""
    each = plan.devices_per_process
    tasks = each if plan.is_mpi else 1
    return (
        f"#SBATCH --job-name={plan.name}",
        f"#SBATCH --array=0-{plan.num_replicas - 1}",
        f"#SBATCH --nodes={plan.nodes_per_replica}",
        f"#SBATCH --ntasks-per-node={tasks}",
        f"#SBATCH --gpus-per-node={each}",
        f"#SBATCH --cpus-per-task={plan.num_cpus // tasks}",
        f"#SBATCH --mem={plan.memory_gib}G",
    )


def slurm_files(plan: Plan) -> dict[str, str]:
    """Return a job array with one job of several nodes for each replica, the script of a node, and the router."""
    address = (
        f"HEAD={SLURM_HEAD}\n"
        f"PORT=$(({plan.port + 1} + SLURM_ARRAY_TASK_ID))\n"
        "export HEAD PORT\n"
        "mkdir -p endpoints\n"
        'echo "server $HEAD:$PORT;" > "endpoints/$SLURM_ARRAY_TASK_ID"\n'
    )
    files = {}
    if plan.is_mpi:
        nodes = plan.engine.flags.nodes
        assert nodes is not None
        start = f"{srun(plan, plan.accelerators_per_process)} --mpi=pmix {nodes.launcher}"
        address += f"{start} {quote_words(plan.words())} {ending(plan)}\n"
    else:
        address += f"{srun(plan)} bash -c 'RANK=$SLURM_PROCID exec bash ./start.sh'\n"
        files["start.sh"] = _start(plan)
    files["replicas.sbatch"] = script(plan.comments, address, *slurm_directives(plan))
    if plan.num_replicas > 1:
        filled = router_conf(plan, "$(cat endpoints/*)")
        body = (
            "# Once the replicas run: writes nginx.conf with their addresses and starts it.\n"
            f"{all_there('endpoints', plan.num_replicas)}\n"
            f'cat > nginx.conf <<EOF\n{filled}EOF\nnginx -c "$PWD/nginx.conf" -g "daemon off;"\n'
        )
        files["router.sh"] = script(plan.comments, body)
    return files


def where_words(plan: Plan, form: str) -> str:
    """Return on which machines the start command of a form runs."""
    count = plan.nodes_per_replica
    if plan.is_mpi:
        return f" on the first of the {count} machines of each replica"
    if form == "compose":
        start = "docker compose --profile worker up --detach"
        if count == 2:
            return f" on the first machine of each replica, and `HEAD=ADDRESS {start}` on its other one"
        return (
            f" on the first machine of each replica, and `HEAD=ADDRESS RANK=N {start}` on its further {count - 1}, "
            f"where N is 1 to {count - 1}"
        )
    return f" on each of the {count} machines of each replica"
