"""Topology of a machine's GPUs: read from the drivers' tools, and drawn."""

import itertools
import re
import subprocess
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.units import GIGA
from advisor.probes.record import LinkTopology

_TIMEOUT_S: Final = 20.0
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_TITLES: Final = ("CPU", "NUMA", "Affinity")
"""First words of the titles behind the columns of devices."""
_NUMA: Final = re.compile(r"GPU\[(\d+)\].*Numa Node:\s*(-?\d+)")
_NEAR: Final = ("PIX", "PXB")
_TOOLS: Final = (("nvidia-smi", "topo", "-m"), ("rocm-smi", "--showtopo"))


def read_topology() -> LinkTopology | None:
    """Return the topology by the first tool that answers; None if there is none, or its output is not readable."""
    for command in _TOOLS:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if found := parse(done.stdout):
            return found
    return None


def parse(text: str) -> LinkTopology | None:
    """Return the matrix in the output of `nvidia-smi topo -m` or `rocm-smi --showtopo`; None if there is none.

    Rows of network cards may be missing: the GPUs' rows show their links too.
    """
    text = _ESCAPES.sub("", text)
    is_rocm = "Link Type between" in text
    found = _matrix(text.partition("Link Type between")[2].splitlines()[1:] if is_rocm else text.splitlines())
    if found is None:
        return None
    names, rows = found
    links = tuple(
        tuple("X" if name == other else cell for other, cell in zip(names, rows[name], strict=False))
        for name in names
        if name in rows
    )
    if is_rocm:
        nodes = dict(_NUMA.findall(text))
        numa = tuple(nodes.get(str(i), "") for i in range(len(names)))
        return LinkTopology(names=names, links=links, numa_nodes=numa)
    extra = [rows[name][len(names) :] for name in names if name.startswith("GPU")]
    return LinkTopology(
        names=names,
        links=links,
        cpus=tuple(cells[0] if cells else "" for cells in extra),
        numa_nodes=tuple(cells[1] if len(cells) > 1 else "" for cells in extra),
        nics=dict(re.findall(r"^\s*(NIC\d+):\s*(\S+)", text, re.MULTILINE)),
    )


def read_matrix(text: str) -> LinkTopology:
    """Return the matrix that a pasted text holds.

    Raises: InputFileError: a row lacks cells.
    """
    found = parse(text)
    if found is None:
        raise InputFileError(
            "the rows of the link matrix have fewer cells than its head has columns",
            why="lines were wrapped or cut, so that no cell can be given its column",
            fix="paste the output of nvidia-smi topo -m as it was printed",
        )
    return found


def _matrix(lines: Sequence[str]) -> tuple[tuple[str, ...], dict[str, list[str]]] | None:
    """Return the names of the columns and the cells by row; None unless every GPU has a row with a cell for each
    column."""
    rows = [line.split() for line in lines]
    head = next((row for row in rows if row[:1] == ["GPU0"] and not _is_row(row)), None)
    if head is None:
        return None
    names = tuple(itertools.takewhile(lambda name: name not in _TITLES, head))
    found: dict[str, list[str]] = {}
    for row in rows[rows.index(head) + 1 :]:
        if row and row[0] in names and row[0] not in found and len(row) > len(names):
            found[row[0]] = row[1:]
    return (names, found) if all(name in found for name in names if name.startswith("GPU")) else None


def _is_row(row: Sequence[str]) -> bool:
    return len(row) > 1 and not row[1].startswith(("GPU", "NIC", "CPU", "mlx"))


def picture(topology: LinkTopology, rates: dict[tuple[int, int], float] | None = None) -> str:
    """Return a tree of NUMA nodes with their GPUs and network cards, then the direct links between the GPUs.

    `rates`: measured copies between pairs [bytes/s], shown as the range of each kind of link.
    """
    gpus = range(topology.num_gpus)
    nodes = [topology.numa_nodes[i] if i < len(topology.numa_nodes) else "" for i in gpus]
    lines: list[str] = []
    for node in sorted(set(nodes)):
        members = [i for i in gpus if nodes[i] == node]
        cpus = topology.cpus[members[0]] if members[0] < len(topology.cpus) else ""
        lines.append(f"NUMA node {node or '?'}" + (f", CPUs {cpus}" if cpus else ""))
        for i in members:
            branch = "└─" if i == members[-1] else "├─"
            beside = [
                f"{name}{f' ({topology.nics[name]})' if name in topology.nics else ''} {link}"
                for name, link in zip(topology.names, topology.links[i], strict=False)
                if not name.startswith("GPU") and link in _NEAR
            ]
            lines.append(f"  {branch} GPU{i}" + "".join(f" ── {text}" for text in beside))
    kinds: dict[str, list[tuple[int, int]]] = {}
    for i, j in combinations(gpus, 2):
        kinds.setdefault(topology.links[i][j], []).append((i, j))
    for kind, pairs in sorted(kinds.items(), key=lambda item: (item[0][:2] not in ("NV", "XG"), item[0])):
        every = len(pairs) == len(gpus) * (len(gpus) - 1) // 2
        words = "all GPUs with each other" if every else " ".join(f"{i}-{j}" for i, j in pairs)
        seen = [rates[pair] for pair in pairs if pair in rates] if rates else []
        speed = f", {min(seen) / GIGA:.0f} to {max(seen) / GIGA:.0f} GB/s" if seen else ""
        lines.append(f"{kind}: {words}{speed}")
    return "\n".join(lines)
