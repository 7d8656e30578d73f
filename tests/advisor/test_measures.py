"""Amounts with units as people type them."""

import pytest

from advisor.ask.measures import parse_budget, parse_bytes, parse_count, parse_seconds, parse_watts
from advisor.catalog.errors import AdvisorError


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("80GB", 80e9),
        ("80 gb", 80e9),
        ("64MiB", 64 * 2**20),
        ("1.5TB", 1.5e12),
        (".5kib", 512.0),
        ("1_000B", 1e3),
    ],
)
def test_bytes(text: str, amount: float) -> None:
    assert parse_bytes(text, "--bytes") == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("50ms", 0.05), ("1.5s", 1.5), ("200us", 2e-4), ("7µs", 7e-6), ("2h", 7200.0), ("30d", 2592000.0)],
)
def test_seconds(text: str, amount: float) -> None:
    assert parse_seconds(text, "--ttft-p99") == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "amount"), [("4096", 4096), ("128k", 128e3), ("70B", 70e9), ("1.4T", 1.4e12), ("1e6", 1e6)]
)
def test_count(text: str, amount: float) -> None:
    assert parse_count(text, "--tokens") == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["13.7/h", "$13.7 / hour", "328.8/day", "10.00785k/month", "$10,007.85/month"]
)
def test_a_budget_is_dollars_an_hour(text: str) -> None:
    assert parse_budget(text) == pytest.approx(13.7, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("80", "the unit is missing"),
        ("80parsec", "'parsec' is not a unit of it"),
        ("50ms", "'ms' is not a unit of it"),
        ("GB", "not an amount"),
        ("", "not an amount"),
        ("nan", "not an amount"),
        ("1,000GB", "not an amount"),
        ("0GB", "out of range"),
        ("-1GB", "out of range"),
        ("1e999GB", "out of range"),
    ],
)
def test_what_is_no_amount_of_memory_is_refused_with_an_example(text: str, what: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        parse_bytes(text, "--min-memory")
    assert what in raised.value.what
    assert "--min-memory" in raised.value.what
    assert raised.value.fix
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("text", ["5000", "$13.7", "10k", "1,500"])
def test_a_budget_without_a_period_could_mean_two_things(text: str) -> None:
    with pytest.raises(AdvisorError, match="dollars of what time") as raised:
        parse_budget(text)
    assert raised.value.fix == f"--budget {text}/h or --budget {text}/month"


@pytest.mark.parametrize(
    "text", ["13,7/h", "1,50/month", "5/fortnight", "5/", "/h", "nan/h", "-5/h", "1e999/h"]
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        parse_budget(text)
    assert "--budget" in raised.value.fix


@pytest.mark.parametrize("text", ["5", "1500", "5k"])
def test_a_power_without_a_unit_could_mean_watts_or_kilowatts(text: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        parse_watts(text, "--power-budget")
    assert raised.value.why == "units are w, kw"
