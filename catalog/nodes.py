"""Boxes, racks and slices as they are sold, and hardware slices of one accelerator."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import Field

from advisor.catalog import accelerators
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, checked, read_cited_tables
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Accelerator, NodeShape, PartitionShape, Source
from advisor.catalog.schema.record import Record
from advisor.catalog.units import BITS_PER_BYTE, GIGA

_PARTITIONS_FILE: Final = "mig.toml"


class NodeFile(Record):
    """Keys of one [[node]] in data/nodes/*.toml."""

    id: str
    name: str
    accelerators: tuple[str, ...] = Field(min_length=1)
    counts: tuple[int, ...] = Field(min_length=1)
    fabric: str
    network_gbit_per_s_per_accelerator: float | None = Field(default=None, gt=0, lt=1e4)
    sources: tuple[Source, ...] = Field(min_length=1)

    def to_record(self) -> NodeShape:
        """The node in SI units."""
        network = self.network_gbit_per_s_per_accelerator
        return NodeShape(
            id=self.id,
            name=self.name,
            accelerators=self.accelerators,
            counts=tuple(sorted(self.counts)),
            fabric=self.fabric,
            network_bytes_per_s_per_accelerator=None if network is None else network * GIGA / BITS_PER_BYTE,
            sources=self.sources,
        )


def read_nodes(path: Path) -> Iterator[NodeShape]:
    """The nodes written in a TOML file.

    Raises: InputFileError: the file or one of its entries is wrong.
    """
    for where, values in read_cited_tables(path, "node"):
        yield checked(NodeFile, values, where).to_record()


@functools.cache
def all_nodes() -> tuple[NodeShape, ...]:
    """Every node shape of the catalog."""
    files = sorted((DATA_DIR / "nodes").glob("*.toml"))
    return tuple(node for path in files if path.name != _PARTITIONS_FILE for node in read_nodes(path))


@functools.cache
def _shapes() -> dict[str, tuple[NodeShape, ...]]:
    shapes: dict[str, list[NodeShape]] = {}
    for node in all_nodes():
        for id_ in node.accelerators:
            shapes.setdefault(id_, []).append(node)
    return {
        id_: tuple(sorted(nodes, key=lambda node: (max(node.counts), node.id)))
        for id_, nodes in shapes.items()
    }


def shapes_for(accelerator_id: str) -> tuple[NodeShape, ...]:
    """Nodes that the accelerator is sold in, smallest first; empty where none is known."""
    return _shapes().get(accelerator_id, ())


@functools.cache
def all_partitions() -> tuple[PartitionShape, ...]:
    """Every hardware slice (MIG profile) of the catalog."""
    entries = read_cited_tables(DATA_DIR / "nodes" / _PARTITIONS_FILE, "partition")
    return tuple(checked(PartitionShape, values, where) for where, values in entries)


def partition_by_id(id_: str) -> PartitionShape:
    """The hardware slice with exactly this id, e.g. h100-sxm-mig-3g-40gb.

    Raises: UnknownNameError: there is none; `hint` lists near misses.
    """
    for partition in all_partitions():
        if partition.id == id_:
            return partition
    near = ", ".join(near_misses(id_, [partition.id for partition in all_partitions()], {}))
    raise UnknownNameError(
        f"unknown slice '{id_}'",
        why="the catalog has no MIG profile with this id",
        fix="type an id that the catalog lists",
        hint=f"did you mean: {near}" if near else "",
    )


def sliced_accelerator(partition: PartitionShape) -> Accelerator:
    """The slice as an accelerator of its own: SMs and peaks by the compute fraction, memory by the memory fraction.

    Assumes: bandwidth and L2 are cut like capacity; a slice has no link to other slices; its power is its share
    of the board's by compute fraction, as the board reports none for a slice.
    Raises: UnknownNameError: the accelerator that is cut is not in the catalog.
    Source: NVIDIA Multi-Instance GPU user guide.
    """
    whole = accelerators.by_id(partition.accelerator)
    compute, memory = partition.compute_fraction, partition.memory_fraction
    return whole.model_copy(
        update={
            "id": partition.id,
            "name": f"{whole.name}, slice {partition.profile}",
            "aliases": (),
            "memory_bytes": _share(whole.memory_bytes, memory),
            "memory_is_measured": False,
            "bandwidth_bytes_per_s": _share(whole.bandwidth_bytes_per_s, memory),
            "l2_bytes": _share(whole.l2_bytes, memory),
            "num_sms": None if whole.num_sms is None else max(1, round(whole.num_sms * compute)),
            "peak_flop_per_s": {dtype: peak * compute for dtype, peak in whole.peak_flop_per_s.items()},
            "tdp_w": _share(whole.tdp_w, compute),
            "scale_up": None,
            "scale_out_bytes_per_s": None,
            "sources": partition.sources,
        }
    )


def _share(value: float | None, fraction: float) -> float | None:
    return None if value is None else value * fraction
