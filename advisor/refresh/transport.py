"""Responses bounded in time and size, even from a server that sends headers one byte at a time, or a small body that
decompresses into a large one."""

import contextlib
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from advisor.catalog.units import MB

_STEP_BYTES: Final = 1 << 20
"""Largest piece that is decompressed at a time [bytes]."""
_PLAIN: Final = ("", "identity")
_GZIP: Final = ("gzip", "x-gzip")


class Deadline:
    """Context manager that cuts a request's connections after `total_s`; time-outs of the client see only silence."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(total_s, self._cut)
        self._timer.daemon = True

    @property
    def words(self) -> str:
        """Message that the time is over; empty before."""
        return f"not whole after {self.total_s:g} s" if self._is_over else ""

    def watch(self, event: str, details: Mapping[str, Any]) -> None:
        """Register a connection that was opened; called as an `httpcore` trace."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            opened = details["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets.append(opened)
                is_over = self._is_over
            if is_over:
                self._cut()

    def _cut(self) -> None:
        with self._lock:
            self._is_over = True
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()


if TYPE_CHECKING:
    import httpx


class DecodingError(Exception):
    """Body that is too large, coded in a way that was not requested, or damaged."""


def decode_body(response: "httpx.Response", most_bytes: float) -> Iterator[bytes]:
    """Yield the bytes of a body that is plain or compressed once.

    Raises: DecodingError: more than `most_bytes` come or unfold, the coding is another, or it is damaged.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding in _PLAIN:
        yield from _count_bytes(response.iter_raw(), most_bytes)
    elif coding in _GZIP:
        yield from _count_bytes(_decompress(_count_bytes(response.iter_raw(), most_bytes)), most_bytes)
    else:
        raise DecodingError(f"coded as {coding[:40]!r}, asked for was gzip")


def _count_bytes(parts: Iterator[bytes], most_bytes: float) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > most_bytes:
            raise DecodingError(f"more than {most_bytes / MB:g} MB")
        yield part


def _decompress(parts: Iterator[bytes]) -> Iterator[bytes]:
    gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        for part in parts:
            rest = part
            while rest and not gzip.eof:
                yield gzip.decompress(rest, _STEP_BYTES)
                rest = gzip.unconsumed_tail
            if gzip.unused_data:
                raise DecodingError("damaged gzip: something follows its end")
        while not gzip.eof and (last := gzip.decompress(gzip.unconsumed_tail, _STEP_BYTES)):
            yield last
    except zlib.error as error:
        raise DecodingError(f"damaged gzip: {error}") from None
    if not gzip.eof:
        raise DecodingError("damaged gzip: it ends too early")
