"""Amounts with units as people type them."""

import pytest

from advisor.ask.measures import (
    parse_budget,
    parse_bytes,
    parse_count,
    parse_rate,
    parse_seconds,
    parse_watts,
)
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
    ("text", "amount"),
    [("4096", 4096), ("128k", 128e3), ("70B", 70e9), ("1.4T", 1.4e12), ("1e6", 1e6), ("128Ki", 131_072)],
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


def test_an_option_that_names_bytes_needs_no_unit() -> None:
    assert parse_bytes("21474836480", "--kv-cache-bytes") == 21_474_836_480


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


@pytest.mark.parametrize("number", [1000, 12500, 2000000])
@pytest.mark.parametrize("sign", [",", " ", "\u202f", "'", "’", "_"])
def test_signs_between_thousands_say_nothing(number: int, sign: str) -> None:
    text = f"{number:,}".replace(",", sign)
    assert parse_count(text, "--users") == number
    assert parse_rate(f"{text}/h") == pytest.approx(number / 3600)
    if sign != "_":
        assert parse_budget(f"${text} per month") == pytest.approx(parse_budget(f"{number}/month"))


def test_a_point_that_may_stand_between_thousands_is_asked_about() -> None:
    with pytest.raises(AdvisorError, match=r"1,500 or 1\.5") as refused:
        parse_count("1.500", "--users")
    assert "1500" in refused.value.fix
    assert parse_count("1.500.000", "--users") == 1.5e6
    assert parse_budget("1.500/h") == parse_rate("1.500") == 1.5  # fractions are usual there, and printed so


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("3000 $/month", "3000/month"),
        ("$3,000/mo", "3000/month"),
        ("3k per month", "3000/month"),
        ("5 USD/hr", "5/h"),
        ("US$5 an hour", "5/h"),
        ("168/week", "1/h"),
        ("24k/yr", "24000/year"),
    ],
)
def test_dollars_and_periods_may_be_spelt(text: str, like: str) -> None:
    assert parse_budget(text) == pytest.approx(parse_budget(like))


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("3 days", "3d"),
        ("12 hours", "12h"),
        ("24hr", "24h"),
        ("2 minutes", "2min"),
        ("90 sec", "90s"),
        ("1 week", "7d"),
        ("500 milliseconds", "500ms"),
        ("1h30m", "90min"),
        ("1h 30min", "90min"),
    ],
)
def test_times_may_be_spelt(text: str, like: str) -> None:
    assert parse_seconds(text, "--deadline") == pytest.approx(parse_seconds(like, "--deadline"))


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2 million", 2e6), ("1.5 Mio", 1.5e6), ("20 thousand", 2e4), ("3bn", 3e9), ("2M", 2e6)],
)
def test_amounts_may_be_spelt(text: str, amount: float) -> None:
    assert parse_count(text, "--items") == amount
