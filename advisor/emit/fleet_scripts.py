"""Pools that differ, as shell scripts: plain commands, docker, Slurm."""

import shlex
from string import Template
from typing import Final

from advisor.catalog.launch import PORT
from advisor.emit import nginx
from advisor.emit.fleet import (
    FIRST_CACHE_PORT,
    ROUTER_FILE,
    TRT_POOLS,
    FleetPlan,
    moves_caches,
    router_of,
    share_of,
    variable_of,
    variables,
    worker_options,
)
from advisor.emit.plan import CACHE, HEALTH, MOUNTED, Plan
from advisor.emit.shell import (
    DOCKER_DEVICES,
    FIRST_PORT,
    RDMA,
    UNTIL_HEALTHY,
    all_there,
    count_line,
    mounted_model,
    quote_words,
    script,
    slurm_directives,
    srun,
)
from advisor.emit.spanning import SLURM_HEAD, ask_lines, docker_body, ending
from advisor.emit.spanning import slurm_directives as spanning_directives


def _loop(fleet: FleetPlan, part: Plan, body: str) -> str:
    """Return the shell loop over a pool's workers on one machine, with their accelerators and ports."""
    each = part.devices_per_replica
    before = fleet.devices_before(part)
    number = fleet.first(part)
    stride = fleet.cache_stride
    name = f"{variable_of(part)}_WORKERS"
    caches = f"  cache_port=$(({FIRST_CACHE_PORT + number * stride} + i * {stride}))\n"
    return (
        f"{count_line(name, part.num_replicas, fleet.per_machine(part))}"
        f"for ((i = 0; i < {name}; i++)); do\n"
        f"  devices=$(seq -s, $(({before} + i * {each})) $(({before} + i * {each} + {each - 1})))\n"
        f"  port=$(({FIRST_PORT + number} + i))\n"
        f"{caches if moves_caches(part) else ''}"
        f"{body}done\n"
    )


def _host(fleet: FleetPlan) -> str:
    return "localhost" if fleet.is_shared else "$HOST"


_HOST_LINE: Final = "HOST=${HOST:-$(hostname -I | cut -d ' ' -f 1)}  # this machine, as the others reach it\n"


def _worker_body(fleet: FleetPlan, part: Plan) -> str:
    settings = {part.visible: "$devices", **variables(part, _host(fleet), "$cache_port")}
    words = " ".join(f'{name}="{value}"' for name, value in settings.items())
    address = worker_options(part, '"$port"', '"$cache_port"')
    return f"  {words} {quote_words(part.words())} {address} &\n"


def _container_body(fleet: FleetPlan, part: Plan) -> str:
    words = part.words(in_container=True)
    address = worker_options(part, '"$port"', '"$cache_port"')
    found = variables(part, _host(fleet), "$cache_port").items()
    settings = " ".join(f'--env {name}="{value}"' for name, value in found)
    env = f"    {settings} \\\n" if settings else ""
    health = f'"curl --silent --fail http://localhost:$port{HEALTH} || exit 1"'
    return (
        f'  docker run --detach --name {part.name}-"$i" --restart unless-stopped \\\n'
        f"    {DOCKER_DEVICES[part.vendor]} {RDMA} \\\n    --ipc host --network host --cpus {part.num_cpus} \\\n"
        f"    --memory {part.memory_gib}g --env HF_TOKEN \\\n{env}"
        f'    --volume "$HOME/.cache/huggingface":{CACHE} --volume "$PWD":{MOUNTED}{mounted_model(part)} \\\n'
        f"    --health-cmd {health} --health-interval 10s --health-start-period {part.start_s}s \\\n"
        f"    --entrypoint {shlex.quote(words[0])} {part.image} \\\n"
        f"    {quote_words(words[1:])} {address}\n"
    )


def _spanning_command(part: Plan) -> str:
    """Return the shell lines of one machine of a worker that holds several."""
    settings = "".join(f'export {name}="{value}"\n' for name, value in _own_variables(part).items())
    line = quote_words(part.words())
    return f"{ask_lines(part)}{settings}exec {line} {ending(part, _own_address(part))}\n"


def _own_address(part: Plan) -> str:
    """Return the options for the ports of a worker that has machines of its own."""
    return worker_options(part, f'"${{PORT:-{FIRST_PORT}}}"', FIRST_CACHE_PORT)


def _own_variables(part: Plan) -> dict[str, str]:
    """Return the variables of a worker that has machines of its own; its first one serves its caches."""
    return variables(part, "$HEAD", FIRST_CACHE_PORT)


def _scripts(fleet: FleetPlan, bodies: dict[str, str], *, stay: str) -> dict[str, str]:
    """Return one script if one machine holds all workers, else one per pool and one for the router."""
    addresses = list(fleet.addresses())
    router = f"{fleet.install()}exec {fleet.router(addresses)}\n"
    files = fleet.router_files(addresses)
    if fleet.is_shared:
        ports = [each.port for each in addresses]
        wait = f"for port in {' '.join(map(str, ports))}; do\n  {UNTIL_HEALTHY}\ndone\n"
        return files | {"start.sh": script(fleet.comments, f"{''.join(bodies.values())}{wait}{router}")}
    for share, body in bodies.items():
        host = _HOST_LINE if "$HOST" in body else ""
        rest = stay if body.endswith("done\n") else ""
        files[f"{share}.sh"] = script(fleet.comments, f"{host}{body}{rest}")
    return files | {"router.sh": script(fleet.comments, f"{fleet.hosts_note}{router}")}


def command_files(fleet: FleetPlan) -> dict[str, str]:
    """Return scripts that start the workers of a machine, and the router."""
    bodies = {
        share_of(part): _spanning_command(part)
        if part.nodes_per_replica > 1
        else _loop(fleet, part, _worker_body(fleet, part))
        for part in fleet.parts
    }
    return _scripts(fleet, bodies, stay="wait\n")


def docker_files(fleet: FleetPlan) -> dict[str, str]:
    """Return scripts that start a container for each worker of a machine, and the router."""
    bodies = {
        share_of(part): docker_body(part, _own_address(part), _own_variables(part))
        if part.nodes_per_replica > 1
        else _loop(fleet, part, _container_body(fleet, part))
        for part in fleet.parts
    }
    return _scripts(fleet, bodies, stay="")


def slurm_files(fleet: FleetPlan) -> dict[str, str]:
    """Return a job array for each pool, and a script that starts the router."""
    files: dict[str, str] = {}
    for part in fleet.parts:
        share = share_of(part)
        if part.nodes_per_replica > 1:
            files |= _spanning_job(fleet, part)
            continue
        stride = fleet.cache_stride
        first = FIRST_PORT + sum(each.num_replicas for each in fleet.before(part))
        address = worker_options(part, '"$port"', '"$cache_port"')
        told_by = variables(part, "$(hostname)", "$cache_port")
        exports = "".join(f'export {name}="{value}"\n' for name, value in told_by.items())
        cache = FIRST_CACHE_PORT + (first - FIRST_PORT) * stride
        caches = f"cache_port=$(({cache} + SLURM_ARRAY_TASK_ID * {stride}))\n" if moves_caches(part) else ""
        body = (
            "# Ports of its own for each worker, as several may share a machine.\n"
            f"port=$(({first} + SLURM_ARRAY_TASK_ID))\n"
            f"{caches}{exports}mkdir -p endpoints/{share}\n"
            f'echo "$(hostname) $port{" $cache_port" if caches else ""}" > "endpoints/{share}/$SLURM_ARRAY_TASK_ID"\n'
            f"{srun(part)} {quote_words(part.words())} {address}\n"
        )
        files[f"{share}.sbatch"] = script(fleet.comments, body, *slurm_directives(part))
    files["router.sh"] = script(fleet.comments, _slurm_router(fleet))
    return files


def _spanning_job(fleet: FleetPlan, part: Plan) -> dict[str, str]:
    """Return the job array of a pool whose workers hold several nodes each, and the script of one node."""
    share = share_of(part)
    caches = f" {FIRST_CACHE_PORT}" if moves_caches(part) else ""
    body = (
        f"HEAD={SLURM_HEAD}\nPORT={FIRST_PORT}\nexport HEAD PORT\nmkdir -p endpoints/{share}\n"
        f'echo "$HEAD $PORT{caches}" > "endpoints/{share}/$SLURM_ARRAY_TASK_ID"\n'
        f"{srun(part)} bash -c 'RANK=$SLURM_PROCID exec bash ./{share}.sh'\n"
    )
    return {
        f"{share}.sbatch": script(fleet.comments, body, *spanning_directives(part)),
        f"{share}.sh": script(fleet.comments, _spanning_command(part)),
    }


def _slurm_router(fleet: FleetPlan) -> str:
    """Return the shell lines that start the engine's router with the workers' addresses, once they run."""
    flags = fleet.whole.engine.flags
    lines = ["# Once the workers run: starts the router with their addresses."]
    lines += [all_there(f"endpoints/{share_of(part)}", part.num_replicas) for part in fleet.parts]
    if fleet.has_nginx:
        return "\n".join([*lines, _slurm_nginx(fleet), ""])
    if flags.pool_router_worker:
        lines.append("workers=()")
        for part in fleet.parts:
            worker = flags.pool_router_worker[share_of(part)].format(
                url='"http://$host:$port"', port='"$cache_port"'
            )
            lines += [
                f"for file in endpoints/{share_of(part)}/*; do",
                '  read -r host port cache_port < "$file"',
                f"  workers+=({worker})",
                "done",
            ]
        command = Template(router_of(fleet.whole).format(port=PORT)).substitute(workers='"${workers[@]}"')
        return "\n".join([*lines, f"{fleet.install()}exec {command}", ""])
    lines += ["{", f'  echo "hostname: 0.0.0.0"; echo "port: {PORT}"; echo "backend: pytorch"']
    for part in fleet.parts:
        share = share_of(part)
        lines += [
            f'  echo "{TRT_POOLS[share]}:"; echo "  num_instances: {part.num_replicas}"; echo "  urls:"',
            f'  while read -r host port _; do echo "    - $host:$port"; done < <(cat endpoints/{share}/*)',
        ]
    return "\n".join([*lines, f"}} > {ROUTER_FILE}", f"exec {flags.pool_router}", ""])


def _slurm_nginx(fleet: FleetPlan) -> str:
    """Return the shell lines that write the configuration of nginx from the workers' addresses and start it."""
    lines = []
    marks = {share_of(part): f"@{share_of(part)}@" for part in fleet.parts}
    for part in fleet.parts:
        line = fleet.server_line(part, "$host:$port", part.num_replicas)
        loop = f'while read -r host port; do echo "{line}"; done < <(cat endpoints/{share_of(part)}/*)'
        lines.append(f"{variable_of(part)}=$({loop})")
    text = fleet.router_conf(marks).replace("$", "\\$")
    for part in fleet.parts:
        text = text.replace(marks[share_of(part)], f"${variable_of(part)}")
    return "\n".join(
        [*lines, f"cat > {nginx.FILE} <<EOF", f"{text}EOF", fleet.install() + f"exec {fleet.router([])}"]
    )
