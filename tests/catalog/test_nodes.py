"""Links, node shapes and slices: complete, cited and consistent with the accelerators that they name."""

from pathlib import Path

import pytest

from advisor.catalog import accelerators, interconnects, nodes
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.schema import Accelerator, Interconnect, NodeShape, PartitionShape

LINKS = interconnects.all_interconnects()
NODES = nodes.all_nodes()
PARTITIONS = nodes.all_partitions()


def _ids(record: Interconnect | NodeShape | PartitionShape) -> str:
    return record.id


def test_ids_are_unique_and_the_kinds_that_matter_are_there() -> None:
    links = [link.id for link in LINKS]
    shapes = [node.id for node in NODES]
    assert len(links) == len(set(links)) >= 45
    assert len(shapes) == len(set(shapes)) >= 50
    assert {"nvlink2", "nvlink6", "pcie3-x16", "pcie6-x16", "ib-ndr400", "ib-hdr200", "roce-400"} <= set(
        links
    )
    assert {"hgx-h100-8", "gb200-nvl72", "tpu-v5e-slice", "trn2", "mac", "dgx-spark", "jetson"} <= set(shapes)


@pytest.mark.parametrize("link", LINKS, ids=_ids)
def test_links_are_cited_and_no_measurement_beats_the_wire(link: Interconnect) -> None:
    assert link.sources
    if link.measured_bus_bytes_per_s is not None:
        assert link.measured_bus_bytes_per_s <= link.bytes_per_s


@pytest.mark.parametrize("record", accelerators.all_accelerators(), ids=lambda record: record.id)
def test_every_scale_up_fabric_is_a_known_link_of_the_same_rate(record: Accelerator) -> None:
    if record.scale_up is not None:
        link = interconnects.by_id(record.scale_up.kind)
        assert record.scale_up.bytes_per_s == pytest.approx(link.bytes_per_s)


@pytest.mark.parametrize("record", accelerators.all_accelerators(), ids=lambda record: record.id)
def test_every_accelerator_is_sold_in_some_node(record: Accelerator) -> None:
    assert nodes.shapes_for(record.id)


@pytest.mark.parametrize("node", NODES, ids=_ids)
def test_nodes_name_known_accelerators_and_fabrics_and_stay_within_the_domain(node: NodeShape) -> None:
    interconnects.by_id(node.fabric)
    assert node.sources
    assert list(node.counts) == sorted(set(node.counts))
    for id_ in node.accelerators:
        scale_up = accelerators.by_id(id_).scale_up
        if scale_up is not None and scale_up.kind == node.fabric and node.id != "a2-megagpu-16g":
            assert max(node.counts) <= scale_up.max_domain


def test_shapes_come_smallest_first_and_an_unknown_accelerator_has_none() -> None:
    assert [node.id for node in nodes.shapes_for("h100-sxm")] == ["hgx-h100-4", "hgx-h100-8"]
    assert nodes.shapes_for("no-such-chip") == ()


def test_known_rates() -> None:
    assert interconnects.by_id("nvlink4").bytes_per_s == pytest.approx(450e9)
    assert interconnects.by_id("pcie5-x16").bytes_per_s == pytest.approx(32e9 * 16 * 128 / 130 / 8, rel=0.01)
    hgx = next(node for node in NODES if node.id == "hgx-h100-8")
    assert hgx.network_bytes_per_s_per_accelerator == pytest.approx(50e9)


@pytest.mark.parametrize("partition", PARTITIONS, ids=_ids)
def test_slices_fit_on_the_accelerator_and_keep_their_share(partition: PartitionShape) -> None:
    assert partition.max_per_accelerator * partition.compute_fraction <= 1
    assert partition.max_per_accelerator * partition.memory_fraction <= 1
    whole = accelerators.by_id(partition.accelerator)
    part = nodes.sliced_accelerator(partition)
    assert part.memory_bytes == pytest.approx((whole.memory_bytes or 0) * partition.memory_fraction)
    assert part.peak_flop_per_s["bf16"] == pytest.approx(
        whole.peak_flop_per_s["bf16"] * partition.compute_fraction
    )
    assert part.scale_up is None
    assert part.id == partition.id


def test_an_h100_slice_has_the_sms_that_the_driver_reports() -> None:
    for profile, num_sms, gib in (("1g-10gb", 16, 9.75), ("3g-40gb", 60, 39.38), ("4g-40gb", 64, 39.38)):
        part = nodes.sliced_accelerator(nodes.partition_by_id(f"h100-sxm-mig-{profile}"))
        assert part.num_sms == num_sms
        assert part.memory_bytes == pytest.approx(gib * 2**30, rel=0.03)


def test_unknown_ids_are_told_with_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        interconnects.by_id("nvlink44")
    assert "nvlink4" in caught.value.hint
    with pytest.raises(UnknownNameError) as caught:
        nodes.partition_by_id("h100-sxm-mig-3g-41gb")
    assert "h100-sxm-mig-3g-40gb" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[node]]\nid = "x"\n', "field name"),
        ('[[node]]\nid = "x"\nsources = ["nobody"]\n', "nobody"),
        ("id = 1\n", "no [[node]]"),
        ("[[node]\n", "not valid TOML"),
    ],
)
def test_a_wrong_node_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "nodes.toml"
    path.write_text(text)
    with pytest.raises(InputFileError) as caught:
        tuple(nodes.read_nodes(path))
    assert "nodes.toml" in caught.value.what
    assert told in caught.value.what
