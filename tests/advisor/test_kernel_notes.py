"""`advisor kernel`: what its counts assume, and the choices of a missing argument."""

from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        ("gemm --dtype fp8 --gpu rtx-3090", "fp8"),
        ("gemm --dtype fp8 --gpu a100-sxm-80gb", "fp8"),
        ("gemm --dtype bf16 --gpu v100-sxm2-16gb", "bf16"),
        ("fp8_block_gemm --gpu a100-sxm-80gb", "fp8"),
        ("nvfp4 --gpu h100-sxm", "nvfp4"),
        ("gemm --dtype fp8 --gpu h100-sxm", ""),
        ("gemm --dtype fp16 --gpu v100-sxm2-16gb", ""),
        ("nvfp4 --gpu b200-sxm", ""),
        ("w8a8 --gpu a100-sxm-80gb", ""),
    ],
)
def test_a_format_without_units_is_said_to_be_converted(cli: Cli, words: str, lacks: str) -> None:
    run = cli(f"advisor kernel {words}")
    assert run.code == 0
    assert ("has no units for" in run.err) == bool(lacks)
    assert not lacks or f"has no units for {lacks}" in run.err


@pytest.mark.parametrize("name", ["attention", "attention_backward", "attention_packed"])
def test_attention_says_that_it_is_causal(cli: Cli, name: str) -> None:
    assert "is causal" in cli(f"advisor kernel {name} --gpu a100-sxm-80gb").err
    assert "is causal" not in cli("advisor kernel decode_attention --gpu a100-sxm-80gb").err


def test_a_missing_argument_lists_its_choices_on_one_line(cli: Cli) -> None:
    run = cli("advisor kernel")
    assert run.code == 2
    assert "why: it is one of gemm, attention, rms_norm" in run.err
    assert "u000a" not in run.err
