"""Fixtures of the tests of commands: an option of a real answer, which files that start it are made from."""

import datetime

import pytest

from advisor.decide.option import Option
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario, Traffic


@pytest.fixture(scope="session")
def base_option() -> Option:
    """Some option of a real answer, whose other figures do not matter where files are made from it."""
    traffic = Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=2.0)
    limits = Constraints(accelerators=("h100-sxm",), engines=("vllm",))
    asked = Scenario(
        model="llama-3.1-8b", traffic=traffic, constraints=limits, as_of=datetime.date(2026, 11, 20)
    )
    return recommend(asked).options[0]
