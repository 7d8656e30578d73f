"""A local server that serves recorded price lists, and misbehaves on demand."""

import contextlib
import datetime
import email.utils
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from advisor.refresh.fetch import Fetcher, FetchLimits, open_fetcher
from advisor.refresh.price_cache import PriceCache

RECORDED = Path(__file__).parent / "recorded"
TODAY = datetime.date(2026, 11, 20)
PATIENT = FetchLimits(attempts=3, first_pause_s=0.001, longest_pause_s=0.05, least_gap_s=0.0)
"""Waits as long as a person's program does, so that a busy machine fails no test, and pauses hardly at all."""


@dataclass
class Reply:
    """Reply of the server to one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    stated_length: int | None = None
    """Content-Length that is sent; the true one unless given."""
    pause_s: float = 0.0
    """Before the answer."""
    trickle_s: float = 0.0
    """Between single bytes."""


class Server:
    """Answers by path; a list of replies is used up from its front, its last one for ever."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                owner.answer(self)

            def do_POST(self) -> None:
                owner.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length", 0))
        body = handler.rfile.read(length)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append((handler.command, handler.path, headers, body))
        queue = self.replies.get(handler.path) or self.replies.get(urlsplit(handler.path).path)
        reply = Reply(status=404) if not queue else queue.pop(0) if len(queue) > 1 else queue[0]
        etag = reply.headers.get("ETag")
        if etag and handler.headers.get("if-none-match") == etag:
            reply = Reply(status=304, headers={"ETag": etag})
        changed_on = reply.headers.get("Last-Modified")
        if changed_on and handler.headers.get("if-modified-since") == changed_on:
            reply = Reply(status=304)
        time.sleep(reply.pause_s)
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # a client that gives up, as it should
            self.send(handler, reply)

    def send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        stated = len(reply.body) if reply.stated_length is None else reply.stated_length
        for name, value in {**reply.headers, "Content-Length": str(stated)}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if not reply.trickle_s:
            handler.wfile.write(reply.body)
        for i in range(len(reply.body) if reply.trickle_s else 0):
            handler.wfile.write(reply.body[i : i + 1])
            handler.wfile.flush()
            time.sleep(reply.trickle_s)
        if stated != len(reply.body):
            handler.close_connection = True

    def serve(self, path: str, *replies: Reply) -> None:
        self.replies[path] = list(replies)

    def serve_recording(self, path: str, name: str, **changes: Any) -> None:
        text = (RECORDED / name).read_text(encoding="utf-8").replace("{origin}", self.origin)
        self.serve(path, Reply(text.encode(), **changes))

    def at(self, address: str) -> str:
        """An address of the outside world on this server."""
        path = urlsplit(address).path
        return f"{self.origin}{path}"


AZURE = "/api/retail/prices"
AWS = "/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv"
VAST = "/api/v0/bundles/"
LAMBDA = "/skypilot-org/skypilot-catalog/master/catalogs/v8/lambda/vms.csv"
COMMITS = "/repos/skypilot-org/skypilot-catalog/commits"


@pytest.fixture
def server() -> Iterator[Server]:
    """Serves every recorded list."""
    found = Server()
    found.serve_recording(AZURE, "azure-1.json")
    found.serve_recording(f"{AZURE}?$skip=7", "azure-2.json")
    found.serve_recording(AWS, "aws.csv", headers={"ETag": '"a1"'})
    found.serve_recording(VAST, "vast.json")
    found.serve_recording(LAMBDA, "skypilot-lambda.csv", headers={"ETag": '"l1"'})
    found.serve_recording(LAMBDA.replace("lambda", "verda"), "skypilot-verda.csv")
    found.serve_recording(COMMITS, "github-commits.json")
    yield found
    found.http.shutdown()
    found.http.server_close()


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with open_fetcher(PATIENT) as found:
        yield found


@pytest.fixture
def cache(tmp_path: Path) -> PriceCache:
    return PriceCache(tmp_path / "cache")


@pytest.fixture
def http_date() -> Callable[[float], str]:
    """A date so many seconds from now as HTTP writes it."""
    return lambda seconds: email.utils.formatdate(time.time() + seconds, usegmt=True)
