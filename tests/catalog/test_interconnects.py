"""Links: complete, cited and consistent with the accelerators that name them."""

from pathlib import Path

import pytest

from advisor.catalog import accelerators, interconnects
from advisor.catalog.errors import InputFileError, UnknownNameError

LINKS = interconnects.all_interconnects()


def test_ids_are_unique_and_the_kinds_that_matter_are_there() -> None:
    links = [link.id for link in LINKS]
    assert len(links) == len(set(links)) >= 45
    assert {"nvlink2", "nvlink6", "pcie3-x16", "pcie6-x16", "ib-ndr400", "ib-hdr200", "roce-400"} <= set(
        links
    )


def test_links_are_cited_and_no_measurement_beats_the_wire() -> None:
    for link in LINKS:
        assert link.sources
        if link.measured_bus_bytes_per_s is not None:
            assert link.measured_bus_bytes_per_s <= link.bytes_per_s


def test_every_scale_up_fabric_is_a_known_link_of_the_same_rate() -> None:
    for record in accelerators.all_accelerators():
        if record.scale_up is not None:
            link = interconnects.by_id(record.scale_up.kind)
            assert record.scale_up.bytes_per_s == pytest.approx(link.bytes_per_s)


def test_known_rates() -> None:
    assert interconnects.by_id("nvlink4").bytes_per_s == pytest.approx(450e9)
    assert interconnects.by_id("pcie5-x16").bytes_per_s == pytest.approx(32e9 * 16 * 128 / 130 / 8, rel=0.01)


def test_unknown_ids_are_told_with_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        interconnects.by_id("nvlink44")
    assert "nvlink4" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[interconnect]]\nid = "x"\n', "field kind"),
        ('[[interconnect]]\nid = "x"\nsources = ["nobody"]\n', "nobody"),
        ("id = 1\n", "no [[interconnect]]"),
        ("[[interconnect]\n", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "links.toml"
    path.write_text(text)
    with pytest.raises(InputFileError) as caught:
        tuple(interconnects.read_interconnects(path))
    assert "links.toml" in caught.value.what
    assert told in caught.value.what
