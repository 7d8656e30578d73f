"""Names that people type: exact, alias, other spelling, near miss, never a silent guess."""

import pytest

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.resolve import near_misses, resolve

IDS = ("h100-sxm", "h100-pcie", "h200-sxm", "rtx-4090", "m4-max-40-core", "llama-3.1-70b")
ALIASES = {"h100": "h100-sxm", "4090": "rtx-4090", "meta-llama/Llama-3.1-70B": "llama-3.1-70b"}


def test_an_id_resolves_to_itself_without_a_note() -> None:
    found = resolve("rtx-4090", IDS, ALIASES, "accelerator")
    assert (found.id, found.note) == ("rtx-4090", "")


@pytest.mark.parametrize(
    ("typed", "id_"),
    [
        ("h100", "h100-sxm"),
        (" H100 ", "h100-sxm"),
        ("H100_SXM", "h100-sxm"),
        ("H100 PCIe", "h100-pcie"),
        ("RTX4090", "rtx-4090"),
        ("rtx 4090", "rtx-4090"),
        ("M4 Max (40 core)", "m4-max-40-core"),
        ("meta-llama/llama-3.1-70b", "llama-3.1-70b"),
        ("llama3.1-70b", "llama-3.1-70b"),
    ],
)
def test_other_spellings_and_aliases_say_what_was_chosen(typed: str, id_: str) -> None:
    found = resolve(typed, IDS, ALIASES, "accelerator")
    assert found.id == id_
    assert id_ in found.note
    assert typed in found.note


@pytest.mark.parametrize("typed", ["rtx-4090-laptop", "h10", "sxm", "409", "rtx-4090-d", "", "  "])
def test_a_part_or_an_extension_of_a_name_is_refused(typed: str) -> None:
    with pytest.raises(UnknownNameError):
        resolve(typed, IDS, ALIASES, "accelerator")


def test_near_misses_are_in_the_hint() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve("h200-smx", IDS, ALIASES, "accelerator")
    assert "h200-sxm" in caught.value.hint
    assert "unknown accelerator 'h200-smx'" in caught.value.what
    assert near_misses("", IDS, ALIASES) == ()
    assert near_misses("rtx-4090-laptop", IDS, ALIASES) == ("rtx-4090",)


def test_a_spelling_that_fits_two_records_is_refused_with_both() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve("AB", ("a-b", "a_b"), {}, "part")
    assert "a-b" in caught.value.what
    assert "a_b" in caught.value.what
