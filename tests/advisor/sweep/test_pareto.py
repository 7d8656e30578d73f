"""The Pareto front against its definition."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from advisor.catalog.errors import AdvisorError
from advisor.sweep.pareto import Objective, pareto_front, parse_objectives

COST = Objective("cost", "min")
RATE = Objective("rate", "max")
ROWS = st.lists(
    st.fixed_dictionaries({"cost": st.integers(0, 5), "rate": st.integers(0, 5) | st.none()}), max_size=30
)


def beats(a: dict[str, int], b: dict[str, int]) -> bool:
    return a["cost"] <= b["cost"] and a["rate"] >= b["rate"] and a != b


@given(ROWS)
def test_the_front_is_what_nothing_beats(rows: list[dict[str, int]]) -> None:
    judged = [index for index, row in enumerate(rows) if row["rate"] is not None]
    expected = {i for i in judged if not any(beats(rows[j], rows[i]) for j in judged)}
    front = pareto_front(rows, (COST, RATE))
    assert set(front) == expected
    assert len(front) == len(expected)
    assert [rows[i]["cost"] for i in front] == sorted(rows[i]["cost"] for i in front)


def test_objectives_name_columns_that_there_are() -> None:
    assert parse_objectives(["min cost", "max rate"], ["cost", "rate"]) == (COST, RATE)
    with pytest.raises(AdvisorError, match="no column 'cots'") as caught:
        parse_objectives(["min cots"], ["cost", "rate"])
    assert "cost" in caught.value.fix
    with pytest.raises(AdvisorError, match="not understood"):
        parse_objectives(["cost"], ["cost"])
