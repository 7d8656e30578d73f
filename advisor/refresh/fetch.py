"""Downloads from price sources, with time-outs, retries that back off, a pace per host, and limits on size and time."""

import datetime
import email.utils
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import urlsplit

from advisor import __version__
from advisor.catalog.units import GB, MB
from advisor.refresh.transport import Deadline, DecodingError, decode_body

if TYPE_CHECKING:
    import httpx

RETRIED_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
NOT_MODIFIED: Final = 304
MOST_REDIRECTS: Final = 3
_LONGEST_TAG: Final = 200
_PORTS: Final = {"https": 443, "http": 80}
Origin = tuple[str, str, int]
"""Scheme, host and port."""


class FetchError(Exception):
    """Failure to fetch a document; the message is that of the last attempt."""


class _PassingError(Exception):
    """Failure that may pass; `wait_s` is the wait that the server asked for [s]."""

    def __init__(self, what: str, wait_s: float | None = None, *, nobody_answers: bool = False) -> None:
        super().__init__(what)
        self.wait_s = wait_s
        self.nobody_answers = nobody_answers


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits on time, attempts and size of requests."""

    connect_s: float = 5.0
    read_s: float = 30.0
    """Longest silence of the server [s]."""
    total_s: float = 600.0
    """Longest request, from the connection to the last byte, however steadily bytes arrive [s]."""
    attempts: int = 4
    connect_attempts: int = 2
    """Attempts if no server answers; fewer than `attempts`, because without a network waiting does not help."""
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    least_gap_s: float = 0.2
    """Shortest time between two requests to one host [s]."""
    most_bytes: float = 32 * MB
    """Largest document in memory [bytes], both as sent and after decompression."""
    most_file_bytes: float = 2 * GB
    """Largest document that goes to a file [bytes]."""


@dataclass(frozen=True, slots=True)
class Received:
    """Document and the tag by which its server knows this version: its ETag, else its date of change."""

    content: bytes
    etag: str

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", errors="replace")


@dataclass(slots=True)
class Fetcher:
    """Client that fetches documents; several threads may share one."""

    client: "httpx.Client"
    limits: FetchLimits = field(default_factory=FetchLimits)
    origins: frozenset[Origin] = frozenset()
    """Origins that requests and redirects may contact; if empty, only the origin of the document."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _next_request: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def within(self, addresses: frozenset[str]) -> "Fetcher":
        """Return a copy of this fetcher that may contact only the origins of `addresses`."""
        return replace(self, origins=frozenset(origin_of(address) for address in addresses))

    def get(self, url: str, *, etag: str = "", body: Mapping[str, object] | None = None) -> Received | None:
        """Return the document at an address, or None if the server says that the tagged version is current.

        With a body the request is a POST of JSON.

        Raises: FetchError: every attempt failed, or the document is too large or takes too long.
        """
        import io

        sink = io.BytesIO()
        found = self._attempts(url, sink, self.limits.most_bytes, etag, body)
        return None if found is None else Received(sink.getvalue(), found)

    @contextmanager
    def download(self, url: str, *, etag: str = "") -> Iterator[tuple[Path, str] | None]:
        """Yield a large document as a file that is removed afterwards, and its tag; None if the tagged version is
        current.

        Raises: FetchError: as `get`.
        """
        with TemporaryDirectory(prefix="advisor-") as folder:
            path = Path(folder) / "document"
            with path.open("wb") as sink:
                found = self._attempts(url, sink, self.limits.most_file_bytes, etag, None)
            yield None if found is None else (path, found)

    def _attempts(
        self, url: str, sink: BinaryIO, most_bytes: float, etag: str, body: Mapping[str, object] | None
    ) -> str | None:
        pause_s = self.limits.first_pause_s
        for attempt in range(1, self.limits.attempts + 1):
            self._keep_pace(url)
            try:
                return self._once(url, sink, most_bytes, etag, body)
            except _PassingError as error:
                wait_s = pause_s * random.uniform(0.75, 1.25) if error.wait_s is None else error.wait_s
                if attempt >= (
                    self.limits.connect_attempts if error.nobody_answers else self.limits.attempts
                ):
                    raise FetchError(f"{error} ({attempt} attempts)") from error
                if wait_s > self.limits.longest_pause_s:
                    raise FetchError(f"{error}; the server asks to wait {wait_s:.0f} s") from error
                self.sleep(wait_s)
                pause_s = min(2.0 * pause_s, self.limits.longest_pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, url: str, sink: BinaryIO, most_bytes: float, etag: str, body: Mapping[str, object] | None
    ) -> str | None:
        import httpx

        condition = "If-Modified-Since" if etag.endswith(" GMT") else "If-None-Match"
        headers = {condition: etag} if etag else {}
        sink.seek(0)
        sink.truncate()
        allowed = self.origins or {origin_of(url)}
        deadline = Deadline(self.limits.total_s)
        try:
            with deadline:
                request = self.client.build_request(
                    "GET" if body is None else "POST", url, headers=headers, json=body
                )
                response = self._send(request, allowed, deadline)
                try:
                    if etag and response.status_code == NOT_MODIFIED:
                        return None
                    _check_status(response)
                    for part in decode_body(response, most_bytes):
                        sink.write(part)
                finally:
                    response.close()
                return _tag(response.headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise _PassingError(_describe_error(error), nobody_answers=True) from error
        except httpx.TransportError as error:  # time-outs, refused connections, bodies that end too early
            raise _PassingError(deadline.words or _describe_error(error)) from error
        except DecodingError as error:
            raise FetchError(str(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            raise FetchError(_describe_error(error)) from error

    def _send(
        self, request: "httpx.Request", allowed: Collection[Origin], deadline: Deadline
    ) -> "httpx.Response":
        """Return the response to a request, after redirects to allowed origins."""
        for _ in range(MOST_REDIRECTS + 1):
            if origin_of(str(request.url)) not in allowed:
                scheme, host, port = origin_of(str(request.url))
                raise FetchError(f"sent on to {scheme}://{host}:{port}, which is not listed for this source")
            request.extensions = {**request.extensions, "trace": deadline.watch}
            response = self.client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
        raise FetchError(f"TooManyRedirects: more than {MOST_REDIRECTS}")

    def _keep_pace(self, url: str) -> None:
        host = "{}:{}".format(*origin_of(url)[1:])
        with self._lock:
            now = self.clock()
            starts_at = max(now, self._next_request.get(host, now))
            self._next_request[host] = starts_at + self.limits.least_gap_s
        if starts_at > now:
            self.sleep(starts_at - now)


@contextmanager
def open_fetcher(limits: FetchLimits | None = None) -> Iterator[Fetcher]:
    """Yield a fetcher whose client is closed afterwards; proxies and certificates come from the environment."""
    import httpx

    wanted = limits or FetchLimits()
    timeout = httpx.Timeout(wanted.read_s, connect=wanted.connect_s)
    agent = {"User-Agent": f"ai-hardware-advisor/{__version__}", "Accept-Encoding": "gzip"}
    # Each request has its own connection, so that a deadline can end it without harm to another.
    pool = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(timeout=timeout, headers=agent, limits=pool) as client:
        yield Fetcher(client, wanted)


def origin_of(address: str) -> Origin:
    """Return scheme, host and port of an address.

    Raises: FetchError: it is no address.
    """
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise FetchError(f"no address: {error}") from None


def _check_status(response: "httpx.Response") -> None:
    status = response.status_code
    if status in RETRIED_STATUS:
        raise _PassingError(f"HTTP {status}", _asked_wait_s(response.headers.get("retry-after", "")))
    if status != 200:
        raise FetchError(f"HTTP {status}")


def _tag(headers: "httpx.Headers") -> str:
    """Return the server's tag for this version; empty if there is none that can be sent back."""
    tag = str(headers.get("etag") or headers.get("last-modified", ""))
    return tag if tag.isascii() and tag.isprintable() and len(tag) <= _LONGEST_TAG else ""


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _asked_wait_s(header: str) -> float | None:
    """Wait that a Retry-After header asks for [s], as a number or a date; None if it is neither."""
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        until = email.utils.parsedate_to_datetime(header)
        return max(0.0, (until - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no date, or one that names no time zone
        return None
