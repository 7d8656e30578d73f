"""Strangers at the doors of the service: bad input is told, nothing of the machine is read, work is bounded."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.service.pool import WorkerPool
from advisor.service.questions import check_values

for _package in ("starlette", "httpx", "mcp"):
    pytest.importorskip(_package)

Cli = Callable[[str], Any]
CHEAP = {"vendor": "amd"}
HOSTS = frozenset({"localhost", "127.0.0.1"})
JSON = {"content-type": "application/json"}


def talk(conversation: Callable[[Any, WorkerPool], Awaitable[None]], *, most_bytes: int = 20_000) -> None:
    """Hold a conversation with a service that has its own workers."""
    import httpx

    from advisor.service.http import application

    async def hold() -> None:
        pool = WorkerPool(1, 120.0)
        door = httpx.ASGITransport(application(pool, most_bytes=most_bytes, hosts=HOSTS))
        async with httpx.AsyncClient(transport=door, base_url="http://localhost", timeout=None) as client:
            try:
                await conversation(client, pool)
            finally:
                await pool.close()

    asyncio.run(hold())


REFUSED: tuple[tuple[int, str, dict[str, str], bytes, str], ...] = (
    (400, "POST catalog/gpus", JSON, b'{"vendor": ', "is no JSON"),
    (400, "POST catalog/gpus", JSON, b'{"min_memory": NaN}', "is no JSON"),
    (400, "POST catalog/gpus", JSON, b"[" * 15_000, "is no JSON"),
    (400, "POST catalog/gpus", JSON, b"\xff\xfe", "is no JSON"),
    (422, "POST catalog/gpus", JSON, b"[1, 2]", "a JSON object of keywords"),
    (422, "POST catalog/gpus", JSON, b'{"vendors": "amd"}', "has no keyword 'vendors'"),
    (422, "POST catalog/gpus", JSON, b'{"offline": false}', "has no keyword 'offline'"),
    (422, "POST catalog/gpus", JSON, b'{"output": "x.json"}', "has no keyword 'output'"),
    (422, "POST recommend", JSON, b'{"model": "8b", "emit_dir": "/x"}', "has no keyword 'emit_dir'"),
    (422, "POST recommend", JSON, b'{"model": "8b", "rate": -1}', "--rate"),
    (422, "POST recommend", JSON, b'{"model": ["8b", {"a": 1}]}', "model"),
    (422, "POST recommend", JSON, b'{"model": "/etc"}', "names a place on the machine"),
    (422, "POST recommend", JSON, b'{"model": "a/../../etc"}', "names a place on the machine"),
    (422, "POST recommend", JSON, b'{"model": "./x"}', "names a place on the machine"),
    (422, "POST recommend", JSON, b'{"model": "8b", "own": ["~/x"]}', "names a place on the machine"),
    (422, "POST recommend", JSON, b'{"model": "8b", "trace": "x.csv"}', "takes the content of a file"),
    (422, "POST recommend", JSON, b'{"model": "8b", "trace": {"name": "../x", "text": ""}}', "by its name"),
    (422, "POST replay", JSON, b'{"file": "/etc/passwd"}', "names a place on the machine"),
    (422, "POST replay", JSON, b'{"file": {"kind": "plan"}}', "is no plan"),
    (413, "POST catalog/gpus", JSON, b'{"vendor": "' + b"a" * 30_000 + b'"}', "at most 20,000 bytes"),
    (415, "POST catalog/gpus", {"content-type": "text/plain"}, b"{}", "as application/json"),
    (
        415,
        "POST catalog/gpus",
        {"content-type": "application/x-www-form-urlencoded"},
        b"a=b",
        "as application/json",
    ),
    (403, "POST catalog/gpus", {**JSON, "host": "evil.example"}, b"{}", "no service is called"),
    (403, "POST catalog/gpus", {**JSON, "origin": "https://evil.example"}, b"{}", "pages of other sites"),
    (403, "POST catalog/gpus", {**JSON, "origin": "null"}, b"{}", "pages of other sites"),
    (404, "POST catalog/gpu", JSON, b"{}", "no question is called"),
    (404, "POST probe", JSON, b"{}", "no question is called"),
    (404, "POST serve-api", JSON, b"{}", "no question is called"),
    (405, "GET recommend", {}, b"", "Method Not Allowed"),
)


def test_bad_requests_are_told_as_json() -> None:
    async def conversation(client: Any, pool: WorkerPool) -> None:
        for status, line, headers, body, what in REFUSED:
            method, path = line.split()
            reply = await client.request(method, f"/v1/{path}", headers=headers, content=body)
            told = reply.json()["error"]
            assert reply.status_code == status, (path, body[:60], told)
            assert what in told["what"], told
            assert told["fix"], told
            assert "Traceback" not in reply.text
        reply = await client.post("/v1/catalog/gpus", json=CHEAP)
        assert reply.status_code == 200
        assert "access-control-allow-origin" not in reply.headers
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.get("/health")).json() == {"places": 5, "taken": 0}
        assert "/v1/recommend" in (await client.get("/")).json()["questions"]
        paths = (await client.get("/openapi.json")).json()["paths"]
        assert paths["/v1/simulate/serve"]["post"]["requestBody"]["content"]["application/json"]

    talk(conversation)


def test_a_thousand_questions_at_once_are_bounded() -> None:
    async def conversation(client: Any, pool: WorkerPool) -> None:
        replies = await asyncio.gather(
            *(client.post("/v1/catalog/gpus", json=CHEAP, headers=JSON) for _ in range(1000))
        )
        codes = [reply.status_code for reply in replies]
        assert set(codes) == {200, 429}
        assert 1 <= codes.count(200) <= 100
        refused = next(reply for reply in replies if reply.status_code == 429)
        assert refused.headers["retry-after"] == "1"
        assert "too many questions" in refused.json()["error"]["what"]
        assert pool.num_inside == 0
        assert (await client.post("/v1/catalog/gpus", json=CHEAP)).status_code == 200

    talk(conversation)


def test_a_question_without_end_is_stopped_and_the_next_one_answered() -> None:
    async def conversation(client: Any, pool: WorkerPool) -> None:
        assert (await client.post("/v1/catalog/gpus", json=CHEAP)).status_code == 200
        pool.limit_s = 0.3
        long = {"model": "8b", "gpu": "h100", "rate": 2, "requests": 1_000_000, "step_by_step": True}
        reply = await client.post("/v1/simulate/serve", json=long)
        assert reply.status_code == 504
        assert "no answer within 0.3 s" in reply.json()["error"]["what"]
        pool.limit_s = 60.0
        assert (await client.post("/v1/catalog/gpus", json=CHEAP)).status_code == 200

    talk(conversation)


def test_a_worker_that_dies_is_told_and_replaced() -> None:
    async def conversation(client: Any, pool: WorkerPool) -> None:
        await client.post("/v1/catalog/gpus", json=CHEAP)
        pool._idle[0].process.kill()
        reply = await client.post("/v1/catalog/gpus", json=CHEAP)
        assert reply.status_code == 500
        assert "has ended" in reply.json()["error"]["what"]
        assert (await client.post("/v1/catalog/gpus", json=CHEAP)).status_code == 200

    talk(conversation)


def test_progress_comes_line_by_line() -> None:
    async def conversation(client: Any, pool: WorkerPool) -> None:
        asked = {"model": "8b", "rate": 5, "gpu": ["l40s", "h100"], "engine": "vllm", "fast": True}
        reply = await client.post("/v1/recommend", json=asked, headers={"accept": "application/x-ndjson"})
        lines = [json.loads(line) for line in reply.text.splitlines()]
        assert lines[-1]["kind"] == "plan"
        assert lines[:-1]
        assert all(line.keys() == {"progress"} for line in lines[:-1])

    talk(conversation)


@pytest.mark.parametrize(
    "place", ["inputs.constraints.price_file", "inputs.constraints.price_cache", "inputs.traffic.trace"]
)
def test_no_document_leads_to_a_file_of_the_machine(cli: Cli, tmp_path: Path, place: str) -> None:
    """A plan that names a file of the machine is refused where the file would be opened, and tells none of it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "secret.csv").write_text("hunter2,hunter2\n1,2\n")
    words = "recommend --model 8b --rate 5 --gpu l40s --engine vllm --top 1 --fast -q --as-of 2026-11-20"
    assert cli(f"advisor {words} --plan {tmp_path / 'plan.json'}").code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    record = plan
    *path, last = place.split(".")
    for name in path:
        record = record[name]
    record[last] = str(secret if last == "price_cache" else secret / "secret.csv")

    async def conversation(client: Any, pool: WorkerPool) -> None:
        reply = await client.post("/v1/replay", json={"file": plan})
        assert "hunter2" not in reply.text
        if last != "price_cache":
            assert reply.status_code == 422, reply.text[:300]
            assert "a service reads no file of its machine" in reply.json()["error"]["why"]

    talk(conversation, most_bytes=1_000_000)


def test_a_worker_opens_connects_and_starts_nothing(tmp_path: Path) -> None:
    """The guard of a worker, tried in a process of its own."""
    import subprocess

    code = f"""
import pathlib, socket, subprocess, sys
from advisor.service.worker import keep_inside
folder = pathlib.Path.cwd()
keep_inside(folder)
(folder / "own.txt").write_text("x")
assert (folder / "own.txt").read_text() == "x"
(folder / "link").symlink_to({str(tmp_path / "outside")!r})
for act in (
    lambda: open({str(tmp_path / "outside")!r}),
    lambda: open(folder / "link"),
    lambda: open("../outside"),
    lambda: open("/etc/passwd"),
    lambda: open(sys.executable, "ab"),
    lambda: (folder / ".." / "new").write_text("x"),
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: subprocess.run(["true"]),
):
    try:
        act()
    except PermissionError as error:
        print(error.strerror)
    else:
        print("DONE")
"""
    (tmp_path / "outside").write_text("secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=inside,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert (
        done.stdout.splitlines()
        == ["a service reads no file of its machine"] * 6
        + ["a service starts nothing and uses no network"] * 2
    ), done.stderr


def test_an_agents_nonsense_is_told() -> None:
    from mcp import Client

    from advisor.service.agents import USUAL, server_of

    async def speak() -> None:
        pool = WorkerPool(1, 60.0)
        try:
            async with Client(server_of(pool, USUAL)) as agent:
                listed = (await agent.list_tools()).tools
                assert [tool.name for tool in listed] == [name.replace(" ", "_") for name in USUAL]
                for name, arguments, fix in (
                    ("recomend", {}, "recommend"),
                    ("recommend", {"model": "gpt-9"}, ""),
                    ("recommend", {"modell": "8b"}, "model"),
                    ("catalog_gpus", {"vendor": 5}, ""),
                    ("catalog_gpus", {"price_file": "/etc/passwd"}, ""),
                    ("compare", {"first": "../../etc/passwd", "second": "x"}, "content of the file"),
                ):
                    result = await agent.call_tool(name, arguments)
                    assert result.is_error, name
                    assert fix in result.structured_content["error"]["fix"]
                    assert result.structured_content["error"]["what"] in result.content[0].text
        finally:
            await pool.close()

    asyncio.run(speak())


def test_an_agent_starts_the_command(tmp_path: Path) -> None:
    """The whole way over standard input and output, in a folder of a stranger."""
    from mcp import Client, StdioServerParameters

    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the folder')")
    root = str(Path(__file__).resolve().parents[3])
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "advisor", "mcp", "--tools", "catalog_gpus", "-q"],
        env={**os.environ, "PYTHONPATH": root, "PYTHONSAFEPATH": "1"},
        cwd=str(tmp_path),
    )

    async def speak() -> None:
        async with Client(started, read_timeout_seconds=60.0) as agent:
            result = await agent.call_tool("catalog_gpus", CHEAP)
            assert "mi300x" in json.dumps(result.structured_content)

    asyncio.run(speak())


def test_without_the_packages_the_commands_say_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, package, module in (
        ("serve-api --schema", "uvicorn", "advisor.service.http"),
        ("mcp --list", "mcp_types", "advisor.service.agents"),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, module, raising=False)
        run = cli(f"advisor {name}")
        assert run.code == 6
        assert "To fix: pip install" in run.err


def test_names_of_files_are_plain() -> None:
    for name in ("../x.csv", "/x.csv", ".x", "a/b", "", "a" * 70, "x\x00"):
        with pytest.raises(AdvisorError):
            check_values("recommend", {"trace": {"name": name, "text": ""}})
    values, (attached,) = check_values("recommend", {"model": {"hidden_size": 8}})
    assert values["model"] == "./model.json"
    assert json.loads(attached.text) == {"hidden_size": 8}
