"""Text that a stranger reads: no name of a field, each bill of a headline in its table, help as it was written."""

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from advisor.ask.inputs import parameters_of
from advisor.cli.command import commands

Cli = Callable[[str], Any]

FIELD_NAME = re.compile(r"(?<![\w./-])[a-z]{2,}(?:_[a-z0-9]+)+(?![\w./=-])")
ASKED_ON = "--as-of 2026-11-20"


@pytest.mark.parametrize(
    "command",
    [
        "advisor recommend --model 8b --rate 2 --gpu l40s,l4 --top 2",
        "advisor recommend --model 8b --rate 2 --gpu l40s --term spot,on-demand",
        "advisor recommend --model 8b --workload train --tokens 1B --gpu h100-sxm --top 1",
        "advisor cost --model 8b --gpu l40s --precision fp8 --tokens-per-day 20M",
        "advisor simulate serve --model 8b --gpu l40s --concurrency 4",
        "advisor build --budget 2500 --model 8b",
        "advisor memory --model 8b --gpu l40s",
        "advisor roofline --model 8b --gpu l40s",
        "advisor catalog prices --gpu l40s",
        "advisor catalog coverage",
    ],
)
def test_no_text_has_the_name_of_a_field(cli: Cli, command: str) -> None:
    """Lines of commands to copy, and their comments, are other programs' words."""
    run = cli(f"{command} {ASKED_ON}")
    assert run.code == 0, run.err
    prose = [line for line in run.out.splitlines() if " --" not in line and not line.startswith("#")]
    assert {name for line in prose for name in FIELD_NAME.findall(line)} == set()


@pytest.mark.parametrize("rate", [1, 10])
def test_each_bill_of_the_headline_is_in_the_table_under_it(cli: Cli, rate: int) -> None:
    out = cli(f"advisor cost --model 70b --rate {rate} --gpu gh200-96gb,mi300x,b200-sxm {ASKED_ON}").out
    headline, _, rest = out.partition("\n\n")
    table = rest[rest.index("The same tokens by every way") : rest.index("Break-even points")]
    bills = re.findall(r"(?:for|renting|owning|an API) (\$[\d,]+(?:\.\d\d)?)", headline.replace("\n", " "))
    assert len(bills) > 1
    for bill in bills:
        assert bill in table


def test_help_keeps_brackets_of_its_text() -> None:
    """Rich takes `[bytes]` for a style and leaves it out."""
    for name, found in commands().items():
        for each in parameters_of(found.inputs):
            for declared in get_args(each.annotation)[1:]:
                assert not re.search(r"\[[a-z/@#]", str(getattr(declared, "help", ""))), f"{name} {each.name}"
