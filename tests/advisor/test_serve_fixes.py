"""A refusal for want of memory names settings, each of which is enough alone."""

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
SERVE: Final = "advisor simulate serve --requests 50"
CASES: Final = (
    (
        "--model deepseek-v3.2 --gpu h100-sxm --engine sglang --dp 16 --ep 16 --rate 1",
        "--gpu-memory-utilization",
    ),
    (
        "--model deepseek-r1 --gpu h100-sxm --engine sglang --dp 16 --ep 16 --rate 1",
        "--gpu-memory-utilization",
    ),
    (
        "--model llama-3.1-8b --gpu rtx-3060-laptop --engine llama.cpp --precision q4_k_m --concurrency 1 "
        "--input-tokens 500 --output-tokens 300",
        "--gpu-layers",
    ),
    (
        "--model qwen2.5-coder-32b --gpu rtx-3090 --engine llama.cpp --precision q4_k_m --concurrency 1 "
        "--input-tokens 28000 --output-tokens 1000 --length-dist fixed",
        "--kv-precision",
    ),
)


@pytest.mark.parametrize(("case", "option"), CASES)
def test_every_setting_that_a_refusal_names_is_enough(cli: Cli, case: str, option: str) -> None:
    refused = cli(f"{SERVE} {case}")
    assert refused.code == 3
    (fix,) = re.findall("To fix: (.*)", refused.err)
    named = re.findall(r"--[a-z-]+ [\w.]+", fix)
    assert any(each.startswith(option) for each in named)
    assert "--tp" not in fix.partition(", or ")[0]
    for each in named:
        assert cli(f"{SERVE} {case} {each}").code == 0


def test_more_accelerators_are_named_where_no_setting_is_enough(cli: Cli) -> None:
    refused = cli(f"{SERVE} --model llama-3.1-70b --gpu h100-sxm --rate 1")
    assert "To fix: --tp 2, or --precision fp8" in refused.err
    assert cli(f"{SERVE} --model llama-3.1-70b --gpu h100-sxm --rate 0.1 --tp 4").code == 0
