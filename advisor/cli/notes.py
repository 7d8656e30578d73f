"""What goes to stderr beside the answer: notes and warnings, plain lines that a log can hold."""

import sys


def note(*texts: str) -> None:
    for text in texts:
        sys.stderr.write(f"note: {text}\n")


def warn(*texts: str) -> None:
    for text in texts:
        sys.stderr.write(f"warning: {text}\n")
