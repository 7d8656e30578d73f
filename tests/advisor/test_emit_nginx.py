"""The router that is written before pools by length, run by nginx itself where it is installed; it needs no root."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from advisor.emit import nginx

NGINX = shutil.which("nginx")
LIMIT_TOKENS = 30_464
WINDOWS = {"short": 32_768, "long": 131_072}


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024


class _Replica(BaseHTTPRequestHandler):
    """Answers with its pool; refuses what has more tokens than its window, as engines do."""

    protocol_version = "HTTP/1.1"
    share = ""
    together: threading.Barrier | None = None
    """Answers nobody before so many requests are under way."""

    def do_GET(self) -> None:
        self._reply(200)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.together is not None:
            self.together.wait(10)
        self._reply(200 if body["tokens"] <= WINDOWS[self.share] else 400)

    def _reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("X-Share", self.share)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        return


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


@pytest.fixture
def router(tmp_path: Path) -> Iterator[int]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    servers = {}
    started = []
    for share in WINDOWS:
        server = _Server(("127.0.0.1", 0), type(share, (_Replica,), {"share": share}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers[share] = f"server 127.0.0.1:{server.server_port};"
        started.append(server)
    port = free_port()
    (tmp_path / "nginx.conf").write_text(nginx.conf("a test", servers, LIMIT_TOKENS, port))
    command = [NGINX, "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as asked:
                if not asked.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.05)
        yield port
    finally:
        run.terminate()
        run.wait(10)
        for server in started:
            server.shutdown()
            server.server_close()


def answer(port: int, num_bytes: int, tokens: int) -> tuple[int, str | None]:
    body = json.dumps({"tokens": tokens, "prompt": ""}).encode()
    body = body[:-2] + b"x" * (num_bytes - len(body)) + b'"}'
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked.request("POST", "/v1/completions", body)
    found = asked.getresponse()
    asked.close()
    return found.status, found.getheader("X-Share")


def test_requests_go_where_prompts_of_their_length_go(router: int) -> None:
    edge = nginx.bytes_of(LIMIT_TOKENS)
    assert answer(router, 200, 20) == (200, "short")
    assert answer(router, edge - 1, 20_000) == (200, "short")
    assert answer(router, edge, 20_000) == (200, "long")
    # Few bytes, but more tokens than short replicas take: they refuse it, and it is handed on with its body.
    assert answer(router, 100_000, 50_000) == (200, "long")
    assert answer(router, 100_000, 200_000) == (400, "long")


def test_more_requests_are_under_way_than_one_replica_takes_sequences() -> None:
    text = nginx.conf("a test", {"replicas": "server 127.0.0.1:1;"})
    found = {
        name: int(re.search(rf"{name} (\d+);", text)[1]) for name in ("worker_connections", "rlimit_nofile")
    }
    # A request takes a connection to the client and one to the replica.
    assert found["worker_connections"] // 2 >= 2 * 1024
    assert found["rlimit_nofile"] >= found["worker_connections"]


def test_nginx_carries_requests_beyond_its_own_default(router: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = 400
    monkeypatch.setattr(_Replica, "together", threading.Barrier(requests))
    with ThreadPoolExecutor(requests) as clients:
        answers = list(clients.map(lambda _: answer(router, 200, 20), range(requests)))
    assert answers == [(200, "short")] * requests


def test_what_is_written_lies_where_anybody_may_write() -> None:
    text = nginx.conf("a test", {"replicas": "server 127.0.0.1:1;"}, port=8123)
    for name in ("client_body_temp_path", "proxy_temp_path", "pid"):
        assert f"{name} /var/tmp/nginx-8123" in text
    assert "access_log off;" in text
