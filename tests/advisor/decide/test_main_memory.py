"""Models that are too large for owned accelerators: the command that keeps a part of them in main memory starts."""

import re
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]


@pytest.mark.parametrize(
    ("own", "model"),
    [
        ("1xrtx-4090", "gpt-oss-120b"),
        ("1xrtx-3090", "llama-3.1-70b"),
        ("1xrtx-3060-12gb", "qwen3-30b-a3b"),
    ],
)
def test_the_hint_of_a_model_that_is_too_large_runs(cli: Cli, own: str, model: str) -> None:
    refused = cli(f"advisor recommend --own {own} --model {model}")
    assert refused.code == 3
    assert "To fix: longer" not in refused.err  # no limit of latency makes it fit
    command = re.search(r"in main memory: (advisor .*)$", refused.err, re.MULTILINE)
    assert command is not None
    run = cli(command[1])
    assert run.code == 0
    assert "in main memory: " in run.err
    # One layer more on the accelerators is too much for them.
    more = re.sub(r"--host-experts (\d+)", lambda typed: f"--host-experts {int(typed[1]) - 1}", command[1])
    more = re.sub(r"--gpu-layers (\d+)", lambda typed: f"--gpu-layers {int(typed[1]) + 1}", more)
    assert more != command[1]
    assert cli(more).code == 3
