"""`advisor kernel`: the choices of a missing argument."""

from collections.abc import Callable
from typing import Any

Cli = Callable[[str], Any]


def test_a_missing_argument_lists_its_choices_on_one_line(cli: Cli) -> None:
    run = cli("advisor kernel")
    assert run.code == 2
    assert "why: it is one of gemm, attention, rms_norm" in run.err
    assert "u000a" not in run.err
