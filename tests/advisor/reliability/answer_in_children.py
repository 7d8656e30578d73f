"""Answer commands in children of one process that has imported the program, each as a process of its own would.

A line of standard input is a question: words, folder, environment and limits. A line of standard output is its answer:
exit code, stdout and stderr. Importing takes most of the time of a short command, and is done once here.
"""

import importlib
import io
import json
import os
import resource
import selectors
import signal
import sys
import traceback
from typing import Any

from advisor.__main__ import main
from advisor.cli.command import FOLDERS


def answer(question: dict[str, Any]) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command in a child."""
    pipes = [os.pipe() for _ in range(2)]  # no files: a limit on their size would hold for what is said too
    child = os.fork()
    if child == 0:
        become(question, *(writer for _, writer in pipes))
    said = {}
    with selectors.DefaultSelector() as selector:
        for reader, writer in pipes:
            os.close(writer)
            said[reader] = b""
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                piece = os.read(key.fd, 65536)
                said[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out, err = (text.decode("utf-8", "replace") for text in said.values())
    return code, out, err


def become(question: dict[str, Any], out: int, err: int) -> None:
    """Run the command of a question in this process and end it."""
    code = 1
    try:
        for number, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(number, place)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        os.chdir(question["folder"])
        os.environ.update(question["env"])
        signal.alarm(question["patience_s"])
        sys.dont_write_bytecode = True  # a limit on files would cut what a module is compiled to
        for name, most in question["limits"].items():
            resource.setrlimit(getattr(resource, name), (most, most))
        code = main(question["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def serve() -> None:
    """Answer the questions of standard input until it ends."""
    for folder in FOLDERS:
        importlib.import_module(f"advisor.commands.{folder}.run")
    questions = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    for line in questions:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
