"""A process that answers one question after another: messages on its standard input and output, each with its length.

`python -m advisor.service.worker` is started by a `WorkerPool`, in an empty folder.
"""

import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import GB

MOST_MEMORY_BYTES: Final = int(8 * GB)
"""Address space of one worker; the largest question of the documentation takes 1.2 GB."""
BETWEEN_PROGRESS_S: Final = 0.25
Message = dict[str, Any]


def read_message(stream: BinaryIO) -> Message | None:
    """Return the next message; None at the end of the stream."""
    line = stream.readline()
    if not line.strip().isdigit():
        return None
    found: Message = json.loads(stream.read(int(line)))
    return found


def message_bytes(message: Mapping[str, Any]) -> bytes:
    """Return a message with its length in front."""
    content = json.dumps(message).encode()
    return b"%d\n%s" % (len(content), content)


def answer_question(name: str, values: Mapping[str, object]) -> Message:
    """Return the document of a command as text, with notes and Markdown for a reader, or its refusal."""
    from advisor.cli.errors import as_mistake, error_document, internal_error
    from advisor.cli.keywords import answer_call
    from advisor.render.document import document, dump
    from advisor.render.files import as_markdown

    try:
        answer, shared = answer_call(name, (), values)
        content = document(answer, seed=shared.seed, shared=shared.as_inputs())
        markdown = as_markdown(answer, content)
        return {
            "document": dump(content),
            "markdown": markdown,
            "notes": answer.notes,
            "exit_code": answer.exit_code,
        }
    except Exception as error:
        mistake = error if isinstance(error, AdvisorError) else as_mistake(error)
        if mistake is not None:
            return error_document(mistake)
        return error_document(internal_error(error))


def _clean(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


_MACHINE: Final = ("/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo", "/dev/null", "/dev/urandom")
"""Files of the system that libraries read."""
_NEVER: Final = frozenset({"socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})


def keep_inside(folder: Path) -> None:
    """Refuse from now on to open a file outside of the program, its cache and a folder, to connect or start a program.

    A plan, a fleet or a table that a client sends may name files; they are refused where they would be opened.
    """
    from advisor.ask.own_data import cache_folder

    package = Path(__file__).resolve().parents[1]
    program: list[str | Path] = [sys.prefix, sys.base_prefix, *filter(None, sys.path), package]
    # The rooms of a checkout are links to folders beside the package.
    program += [path.resolve() for path in package.iterdir() if path.is_symlink()]
    readable = tuple(Path(each).resolve() for each in (*program, cache_folder(), folder))
    inside = folder.resolve()

    def check(event: str, arguments: tuple[object, ...]) -> None:
        if event in _NEVER:
            raise PermissionError(errno.EACCES, "a service starts nothing and uses no network", event)
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = Path(os.fsdecode(arguments[0])).absolute()
        path = Path(os.path.realpath(path))
        mode = arguments[1]
        flags = arguments[2]
        writes = (isinstance(mode, str) and bool(set(mode) & set("wax+"))) or (
            isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
        )
        allowed = (inside,) if writes else readable
        if any(path.is_relative_to(each) for each in allowed) or str(path).startswith(_MACHINE):
            return
        raise PermissionError(errno.EACCES, "a service reads no file of its machine", str(path))

    sys.addaudithook(check)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))


def _progress_to(send: Callable[[Message], None]) -> Callable[[str], None]:
    """Return a listener that sends a message now and then."""
    last_s = 0.0

    def tell(text: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= BETWEEN_PROGRESS_S:
            last_s = time.monotonic()
            send({"progress": text})

    return tell


def main() -> None:
    """Answer questions until the standard input ends. Whatever else is printed goes to stderr."""
    from advisor.cli.notes import use_listener

    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit_memory()
    folder = Path.cwd()
    keep_inside(folder)

    def send(message: Message) -> None:
        sink.write(message_bytes(message))
        sink.flush()

    send({"ready": True})
    while (question := read_message(source)) is not None:
        _clean(folder)
        for attached in question["attachments"]:
            (folder / attached["name"]).write_text(attached["text"], encoding="utf-8")
        with use_listener(_progress_to(send)):
            send(answer_question(question["name"], question["values"]))


if __name__ == "__main__":
    main()
