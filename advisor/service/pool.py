"""WorkerProcess processes behind a service, with limits on the questions at once and on the time of each."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import AdvisorError
from advisor.service.questions import check_values
from advisor.service.worker import message_bytes

Reply = dict[str, Any]
Listener = Callable[[str], Awaitable[None]]
WAITING_PER_WORKER: Final = 4
"""Questions that may wait for each worker; further ones are refused at once."""
_MOST_REPLY_BYTES: Final = 256 * 1024 * 1024


class BusyError(AdvisorError):
    """Too many questions at once."""


class OutOfTimeError(AdvisorError):
    """A question that takes longer than the service allows."""


class FailedWorkerError(AdvisorError):
    """A worker process that ended in the middle of a question."""

    exit_code = 1


@dataclass(slots=True)
class WorkerProcess:
    """One process, and the empty folder in which it works."""

    process: asyncio.subprocess.Process
    folder: tempfile.TemporaryDirectory[str]

    async def ask(self, question: Reply, listener: Listener | None) -> Reply:
        """Return the reply to a question; progress goes to `listener`."""
        assert self.process.stdin is not None
        self.process.stdin.write(message_bytes(question))
        await self.process.stdin.drain()
        while "progress" in (message := await self.read()):
            if listener is not None:
                await listener(message["progress"])
        return message

    async def read(self) -> Reply:
        """Return the next message of the process.

        Raises: FailedWorkerError: it has ended.
        """
        assert self.process.stdout is not None
        try:
            length = int(await self.process.stdout.readline() or b"-1")
            if not 0 <= length <= _MOST_REPLY_BYTES:
                raise ValueError(length)
            found: Reply = json.loads(await self.process.stdout.readexactly(length))
        except (ValueError, asyncio.IncompleteReadError, ConnectionError):
            raise FailedWorkerError(
                "the process that answered this question has ended",
                why="it ran out of memory or was killed",
                fix="ask for less at a time",
            ) from None
        return found

    async def stop(self) -> None:
        """End the process and remove its folder."""
        with suppress(ProcessLookupError):
            self.process.kill()
        with suppress(OSError, ConnectionError):
            await self.process.wait()
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()
        self.folder.cleanup()


async def start_worker() -> WorkerProcess:
    """Return a new worker that is ready."""
    folder = tempfile.TemporaryDirectory(prefix="advisor-")
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "advisor.service.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder.name,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONSAFEPATH": "1",
            "HF_HUB_OFFLINE": "1",
        },
    )
    worker = WorkerProcess(process, folder)
    await worker.read()
    return worker


@dataclass(slots=True)
class WorkerPool:
    """Workers, started when they are first needed and replaced when they are killed."""

    num_workers: int
    limit_s: float
    """Longest time of one question [s], without the time that it waits."""
    num_inside: int = 0
    """Questions that are answered or wait."""
    _idle: list[WorkerProcess] = field(default_factory=list)
    _slots: asyncio.Semaphore | None = None

    @property
    def num_places(self) -> int:
        """Questions that are taken in at once, those that wait included."""
        return self.num_workers * (1 + WAITING_PER_WORKER)

    def check_room(self) -> None:
        """Refuse a question if no place is free.

        Raises: BusyError: none is.
        """
        if self.num_inside >= self.num_places:
            raise BusyError(
                "too many questions at once",
                why=f"{self.num_workers} are answered and {self.num_places - self.num_workers} wait",
                fix="ask again in a second; --workers N takes more",
            )

    async def ask(self, name: str, body: object, listener: Listener | None = None) -> Reply:
        """Return the reply to a question: `document` as text, or `error`.

        Raises: AdvisorError: the question is malformed, there is no room, or it takes too long.
        """
        self.check_room()
        values, attached = check_values(name, body)
        question = {
            "name": name,
            "values": values,
            "attachments": [{"name": each.name, "text": each.text} for each in attached],
        }
        if self._slots is None:
            self._slots = asyncio.Semaphore(self.num_workers)
        self.num_inside += 1
        try:
            async with self._slots:
                return await self._answer(question, listener)
        finally:
            self.num_inside -= 1

    async def _answer(self, question: Reply, listener: Listener | None) -> Reply:
        worker = self._idle.pop() if self._idle else await start_worker()
        try:
            async with asyncio.timeout(self.limit_s):
                reply = await worker.ask(question, listener)
        except TimeoutError:
            await worker.stop()
            raise OutOfTimeError(
                f"no answer within {self.limit_s:g} s",
                why="the service limits the time of a question",
                fix="ask for less: fewer accelerators, fast=true, fewer requests",
            ) from None
        except BaseException:  # the client has gone, or the process has ended
            await worker.stop()
            raise
        self._idle.append(worker)
        return reply

    async def close(self) -> None:
        """End all workers."""
        while self._idle:
            await self._idle.pop().stop()
