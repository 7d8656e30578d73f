"""Answers of `advisor serve-api`: the description of the service, or its end."""

import asyncio
import ipaddress
import os
import socket
from typing import Final

from advisor.ask.measures import parse_seconds
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError, MissingHardwareError, install_command
from advisor.cli.notes import note, warn
from advisor.commands.serve_api.options import ServeApiInput
from advisor.render.answer import Answer, Paragraph, Table, columns

MOST_WORKERS: Final = 4
"""Workers unless more are asked for: each takes up to 1 GB for a large search."""
MOST_CONNECTIONS: Final = 2048
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def serve_api(asked: ServeApiInput, shared: SharedOptions) -> Answer:
    """Serve until the process is interrupted, or return the OpenAPI description.

    Raises: AdvisorError: the address cannot be used. MissingHardwareError: starlette or uvicorn is not installed.
    """
    try:
        import uvicorn

        from advisor.service.http import application, openapi
    except ImportError:
        raise MissingHardwareError(
            "starlette and uvicorn, which serve HTTP, are not installed",
            fix=install_command("api"),
        ) from None
    limit_s = parse_seconds(asked.limit, "--limit")
    if asked.schema:
        return _description(openapi())
    from advisor.service.pool import WorkerPool

    door = _open(asked.host, asked.port)
    host, port = door.getsockname()[:2]
    hosts = _LOOPBACK if is_loopback(host) else frozenset()
    pool = WorkerPool(asked.workers or min(MOST_WORKERS, os.cpu_count() or 1), limit_s)
    if not shared.quiet:
        shown = f"[{host}]" if ":" in host else host
        note(f"listening on http://{shown}:{port}, {pool.num_workers} questions at once; Ctrl-C ends it")
        if not hosts:
            warn("other machines may ask: the service has no passwords and no encryption")
    config = uvicorn.Config(
        application(pool, most_bytes=asked.max_bytes, hosts=hosts),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        loop="asyncio",
        ws="none",
    )
    server = uvicorn.Server(config)
    asyncio.run(server.serve(sockets=[door]))
    return Answer(result={"kind": "service"}, inputs={"host": host, "port": port}, blocks=())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK


def _open(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises: AdvisorError: the address is none of this machine, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
    except OSError as error:
        raise AdvisorError(
            f"--host {host} --port {port} cannot be used",
            why=error.strerror or str(error),
            fix="--port 0 takes a free port",
        ) from None
    return door


def _description(schema: dict[str, object]) -> Answer:
    """Return the OpenAPI description, and its paths for people."""
    paths = schema["paths"]
    assert isinstance(paths, dict)
    rows = tuple((path, item["post"]["summary"]) for path, item in paths.items())
    return Answer(
        result=schema,
        inputs={},
        blocks=(
            Paragraph(
                f"{len(rows)} questions over HTTP; --json prints the OpenAPI description", emphasis=True
            ),
            Table(columns("POST | answers~"), rows),
        ),
    )
