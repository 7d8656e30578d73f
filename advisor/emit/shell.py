"""Plans as shell scripts: plain commands, docker, Slurm, and the router for several replicas."""

import math
import shlex
from collections.abc import Sequence
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.legible import Line
from advisor.emit import nginx
from advisor.emit.plan import ADAPTERS, CACHE, HEALTH, MODEL, MOUNTED, Plan

FIRST_PORT = PORT + 1
"""Port of the first replica on a machine with several; the router has the port before it."""

DOCKER_DEVICES: Final = {
    "nvidia": '--gpus "\\"device=$devices\\""',
    "amd": '--device /dev/kfd --device /dev/dri --group-add video --env HIP_VISIBLE_DEVICES="$devices"',
}
"""Options of `docker run` that give a container its accelerators, by vendor."""

RDMA: Final = '$([ ! -e /dev/infiniband ] || echo "--device /dev/infiniband --ulimit memlock=-1")'
"""Options of `docker run` that give a container the RDMA devices of its machine, which containers do not see by
themselves; nothing on a machine without any."""

UNTIL_HEALTHY: Final = (
    f"until curl --silent --fail http://localhost:$port{HEALTH} > /dev/null; do sleep 5; done"
)
"""Shell loop that waits until a replica of this machine answers."""


def quote_words(words: Sequence[Line]) -> str:
    """Return the words quoted for a shell."""
    return shlex.join(words)


def mounted_model(plan: Plan) -> str:
    """Return the options that mount a local model outside the folder of the plan, and the folder of adapters; empty if
    there are neither."""
    found = ((plan.model_folder, MODEL), (plan.adapter_folder, ADAPTERS))
    return "".join(f" --volume {shlex.quote(f'{folder}:{inside}:ro')}" for folder, inside in found if folder)


def comment_lines(lines: Sequence[Line]) -> str:
    """Return the lines as comments of a script, a manifest or a configuration."""
    return "".join(f"# {line}\n" for line in lines)


def script(comments: Sequence[Line], body: str, *directives: str) -> str:
    """Return a bash script that starts with `directives` and the comment lines."""
    head = "".join(f"{line}\n" for line in directives)
    return f"#!/usr/bin/env bash\n{head}{comment_lines(comments)}set -euo pipefail\n\n{body}"


def _replicas(plan: Plan) -> str:
    """Return the shell loop over the replicas of a machine, with their number, accelerators and ports."""
    count = count_line("REPLICAS", plan.num_replicas, plan.replicas_per_host)
    return f"{count}{replica_loop(plan, 'REPLICAS')}"


def count_line(name: str, num_replicas: int, each: int) -> str:
    """Return the shell line that sets the number of replicas on this machine, which must be told if the last of the
    machines has fewer than `each`: a default would start more there than were planned."""
    last = num_replicas % each
    more = (
        f"?{each} on each machine, {last} on the last of {math.ceil(num_replicas / each)}"
        if last
        else f"-{each}"
    )
    return f"{name}=${{{name}:{more}}}\n"


def replica_loop(plan: Plan, count: object, first_device: int = 0) -> str:
    """Return the head of a shell loop over `count` replicas, the first one on accelerator `first_device`."""
    each = plan.devices_per_replica
    before = f"{first_device} + " if first_device else ""
    first_port = plan.port + (plan.num_replicas > 1)
    return (
        f"for ((i = 0; i < {count}; i++)); do\n"
        f"  devices=$(seq -s, $(({before}i * {each})) $(({before}i * {each} + {each - 1})))\n"
        f"  port=$(({first_port} + i))\n"
    )


def replica_line(plan: Plan) -> str:
    """Return the shell line that starts one replica in the loop of `replica_loop`.

    Raises: AdvisorError: its engine cannot be told a port.
    """
    if not plan.address():
        raise AdvisorError(
            f"no option is known that sets the port of {plan.engine.name}",
            why="several replicas on one machine need one each",
            fix="--engine vllm",
        )
    port = '"$port"'
    return f'  {plan.visible}="$devices" {quote_words(plan.words())} {plan.address(port)} &\n'


def command_files(plan: Plan) -> dict[str, str]:
    """Return one script that starts the replicas of a machine and waits until they answer."""
    if plan.replicas_per_host == 1:
        alone = plan.address(PORT if plan.num_replicas == 1 else FIRST_PORT)
        line = f"{quote_words(plan.words())} {alone}".rstrip()
        files = {"start.sh": script(plan.comments, f"{plan.own_devices}exec {line}\n")}
    else:
        body = f"{_replicas(plan)}{replica_line(plan)}done\n"
        body += f"for ((port = {FIRST_PORT}; port < {FIRST_PORT} + REPLICAS; port++)); do\n  {UNTIL_HEALTHY}\ndone\n"
        files = {"start.sh": script(plan.comments, f"{body}wait\n")}
    return files | router_files(plan)


def docker_files(plan: Plan) -> dict[str, str]:
    """Return one script that starts a container for each replica of a machine."""
    return {
        "start.sh": script(plan.comments, f"{_replicas(plan)}{container_lines(plan)}done\n")
    } | router_files(plan)


def container_lines(plan: Plan) -> str:
    """Return the shell lines that start one replica in a container in the loop of `replica_loop`."""
    words = plan.all_words()
    devices = DOCKER_DEVICES[plan.vendor]
    health = shlex.quote(f"curl --silent --fail http://localhost:{PORT}{HEALTH} || exit 1")
    return (
        f'  docker run --detach --name {plan.name}-"$i" --restart unless-stopped \\\n'
        f"    {devices} --ipc host --cpus {plan.num_cpus} --memory {plan.memory_gib}g \\\n"
        f'    --publish "$port":{PORT} --env HF_TOKEN \\\n'
        f'    --volume "$HOME/.cache/huggingface":{CACHE} --volume "$PWD":{MOUNTED}{mounted_model(plan)} \\\n'
        f"    --health-cmd {health} --health-interval 10s --health-start-period {plan.start_s}s \\\n"
        f"    --entrypoint {shlex.quote(words[0])} {plan.image} \\\n"
        f"    {quote_words(words[1:])}\n"
    )


def slurm_directives(plan: Plan) -> tuple[str, ...]:
    """Return the directives of a job array with one task per replica."""
    return (
        f"#SBATCH --job-name={plan.name}",
        f"#SBATCH --array=0-{plan.num_replicas - 1}",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        f"#SBATCH --gpus-per-node={plan.devices_per_replica}",
        f"#SBATCH --cpus-per-task={plan.num_cpus}",
        f"#SBATCH --mem={plan.memory_gib}G",
    )


def srun(plan: Plan, num_tasks: int = 1) -> str:
    """Return the beginning of the line that starts the tasks of a job on a node, with their CPU cores.

    Source: manual of sbatch: from Slurm 22.05 on, srun does not inherit `--cpus-per-task`.
    """
    return f"srun --cpus-per-task={plan.num_cpus // num_tasks}"


def slurm_files(plan: Plan) -> dict[str, str]:
    """Return a job array with one task per replica, and a script that starts the router."""
    directives = slurm_directives(plan)
    if not plan.address():
        raise AdvisorError(
            f"no option is known that sets the port of {plan.engine.name}", fix="--engine vllm"
        )
    port = '"$port"'
    body = (
        "# A port of its own for each replica, as several may share a machine.\n"
        f"port=$(({plan.port + 1} + SLURM_ARRAY_TASK_ID))\n"
        "mkdir -p endpoints\n"
        'echo "server $(hostname):$port;" > "endpoints/$SLURM_ARRAY_TASK_ID"\n'
        f"{srun(plan)} {quote_words(plan.words())} {plan.address(port)}\n"
    )
    files = {"replicas.sbatch": script(plan.comments, body, *directives)}
    if plan.num_replicas > 1:
        filled = router_conf(plan, "$(cat endpoints/*)")
        body = (
            "# Once the replicas run: writes nginx.conf with their addresses and starts it.\n"
            f"{all_there('endpoints', plan.num_replicas)}\n"
            f'cat > nginx.conf <<EOF\n{filled}EOF\nnginx -c "$PWD/nginx.conf" -g "daemon off;"\n'
        )
        files["router.sh"] = script(plan.comments, body)
    return files


def all_there(folder: str, num_replicas: int) -> str:
    """Return a shell line that ends the script unless `num_replicas` jobs have written their addresses to `folder`."""
    told = f"not {num_replicas} of them in {folder}: wait until all jobs run, remove what earlier ones left"
    return f'[ "$(ls {folder} | wc -l)" -eq {num_replicas} ] || {{ echo "{told}" >&2; exit 1; }}'


def router_files(plan: Plan) -> dict[str, str]:
    """Return the configuration of a router that sends each request to the replica with the fewest; empty for one
    replica."""
    if plan.num_replicas == 1:
        return {}
    local = plan.num_hosts == 1
    servers = "\n".join(
        f"    server {'127.0.0.1' if local else f'HOST_{place // plan.replicas_per_host + 1}'}:"
        f"{FIRST_PORT + place % plan.replicas_per_host};"
        for place in range(plan.num_replicas)
    )
    note = "" if local else "# Put the names of your machines in place of HOST_1 and so on.\n"
    return {"nginx.conf": f"{comment_lines(plan.comments)}{note}{router_conf(plan, servers.lstrip())}"}


def router_conf(plan: Plan, servers: str) -> str:
    """Return the router's configuration; `servers` holds lines such as `server HOST:PORT;`."""
    return nginx.conf(f"{plan.num_replicas} replicas", {"replicas": servers}, port=plan.port)
