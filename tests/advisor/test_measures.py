"""Amounts with units as people type them."""

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.cli.measures import parse_budget, parse_bytes, parse_count, parse_seconds


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


@pytest.mark.parametrize("text", ["13.7", "$13.7/h", "328.8/day", "10.00785k/month", "$10,007.85/month"])
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
