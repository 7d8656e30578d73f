"""Progress is for people who wait: nothing in a pipe, nothing under --quiet, nothing for what is quick."""

import io
import sys

import pytest

from advisor.cli import notes as module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for stderr; set inside the test, since pytest's own capture replaces stderr before each one."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def wait(monkeypatch: pytest.MonkeyPatch, patience_s: float) -> None:
    """Make any work longer than a moment (negative patience), or none."""
    monkeypatch.setattr(module, "PATIENCE_S", patience_s)


def test_long_work_shows_its_last_message_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    wait(monkeypatch, -1.0)
    with module.progress(quiet=False) as line:
        line("simulating a")
        line("simulating b")
    assert terminal.getvalue() == "\r\x1b[Ksimulating a\r\x1b[Ksimulating b\r\x1b[K"


def test_quick_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    wait(monkeypatch, 3600.0)
    with module.progress(quiet=False) as line:
        line("simulating a")
    assert terminal.getvalue() == ""


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    wait(monkeypatch, -1.0)
    with module.progress(quiet=True) as line:
        line("simulating a")
    assert terminal.getvalue() == ""


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    wait(monkeypatch, -1.0)
    with module.progress(quiet=False) as line:
        line("simulating a")
    assert stream.getvalue() == ""


def test_the_line_goes_away_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    wait(monkeypatch, -1.0)

    def fail() -> None:
        with module.progress(quiet=False) as line:
            line("simulating a")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")
