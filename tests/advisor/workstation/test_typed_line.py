"""Lines of a list: quantity, price and claims as people write them, and what is wrong with a bad one."""

import pytest

from advisor.catalog.errors import InputFileError
from advisor.workstation.typed_line import read_line


@pytest.mark.parametrize(
    ("text", "quantity", "what", "usd", "span"),
    [
        ("2x RTX 5090 $4500", 2, "RTX 5090", 4500, (None, None)),
        ("2 × RTX 5090 $4 000–5 000", 2, "RTX 5090", 4500, (4000, 5000)),
        ("RTX 5090 x2 $2,250 each", 2, "RTX 5090", 4500, (None, None)),
        ("RTX 5090 $2,250 each x2", 2, "RTX 5090", 4500, (None, None)),
        ("Ryzen 9 9950X: $498.99", 1, "Ryzen 9 9950X", 498.99, (None, None)),
        ("2x32GB DDR5", 1, "2x32GB DDR5", None, (None, None)),
        ("case for $300", 1, "case", 300, (None, None)),
        ("1600 W PSU USD 400", 1, "1600 W PSU", 400, (None, None)),
        ("NVMe $1,399.50 - $1,500", 1, "NVMe", 1449.75, (1399.5, 1500)),
    ],
)
def test_a_line_is_read(
    text: str, quantity: int, what: str, usd: float | None, span: tuple[float | None, float | None]
) -> None:
    line = read_line(text, "here")
    assert (line.quantity, line.what, line.usd, (line.usd_low, line.usd_high)) == (quantity, what, usd, span)


@pytest.mark.parametrize(
    "name",
    [
        "MSI Ventus 2X RTX 3060 12GB",
        "RTX 5070 Ti Ventus 3X OC",
        "INNO3D RTX 3060 Twin X2",
        "PNY RTX 5070 Ti 3X OC",
        "Gigabyte WindForce 3 RTX 4070",
        "Thermalright Assassin X 120",
        "assassin x 120",
        "Phantom Spirit 120",
        "Noctua NH-D15",
        "DeepCool AK620",
        "Thermaltake Core X9",
        "NZXT Kraken X 63",
    ],
)
def test_a_number_within_a_name_counts_nothing(name: str) -> None:
    assert read_line(name, "here").quantity == 1
    for text in (f"3x {name}", f"{name} x3", f"{name} (x3)", f"{name}, qty 3"):
        assert read_line(text, "here").quantity == 3


@pytest.mark.parametrize(
    "text", ["MSI 2x RTX 3060", "RTX 3060 X2", "MSI RTX 3060 x2", "RTX 3060 Ti x 2", "cards x 2"]
)
def test_a_number_before_the_maker_or_behind_the_chip_counts_cards(text: str) -> None:
    assert read_line(text, "here").quantity == 2


def test_claims_are_kept_apart_from_the_name() -> None:
    line = read_line('Threadripper 7960X ("8-channel", 88 lanes) $1 400', "here")
    assert line.what == "Threadripper 7960X"
    assert line.claims == {"channels": 8, "lanes": 88}
    assert line.usd == 1400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("RTX 5090 $4,5OO", "price"),
        ("RTX 5090 $-4500", "price '-4500'"),
        ("RTX 5090 $abc", "price 'abc'"),
        ("RTX 5090 $5000-4000", "price $5000 to $4000"),
        ("$500", "names no part"),
    ],
)
def test_a_bad_line_is_told(text: str, says: str) -> None:
    with pytest.raises(InputFileError) as raised:
        read_line(text, "mybuild.toml: part 3")
    assert raised.value.what.startswith("mybuild.toml: part 3: ")
    assert says in raised.value.what


@pytest.mark.parametrize("number", [2, 8, 16])
@pytest.mark.parametrize("usd", ["650", "1,250", "1 250"])
def test_a_number_behind_the_comma_of_a_price_is_that_of_the_next_part(number: int, usd: str) -> None:
    line = read_line(f"EPYC 7302P ${usd}, {number}x 16GB DDR4", "--part 1")
    assert line.usd == float(usd.replace(",", "").replace(" ", ""))


@pytest.mark.parametrize("text", ["RTX 5090 $0", "RTX 5090 ($0.00)", "2x RTX 5090 @ $0 each"])
def test_a_part_that_is_owned_costs_nothing(text: str) -> None:
    line = read_line(text, "row 1")
    assert line.usd == 0.0
    assert line.what == "RTX 5090"
