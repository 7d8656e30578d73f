"""What goes to stderr beside the answer: notes and warnings, plain lines that a log can hold."""

import sys
from collections.abc import Sequence


def note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def warn(warnings: Sequence[str]) -> None:
    for text in warnings:
        sys.stderr.write(f"warning: {text}\n")
