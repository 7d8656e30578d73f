"""A request that ends in time, even where a server sends its headers one byte at a time."""

import contextlib
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class Deadline:
    """Within the block a request's connections are cut once so many seconds are over; time-outs only see silence."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(total_s, self._cut)
        self._timer.daemon = True

    @property
    def words(self) -> str:
        """That the time is over; empty before."""
        return f"not whole after {self.total_s:g} s" if self._is_over else ""

    def watch(self, event: str, details: Mapping[str, Any]) -> None:
        """Take note of a connection that was opened: an `httpcore` trace."""
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
