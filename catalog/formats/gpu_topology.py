"""Link matrix of `nvidia-smi topo -m` or `rocm-smi --showtopo`, as far as a reader must recognise it."""

import itertools
import re
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import HealthCheck, LinkReport

_HEAD: Final = re.compile(r"^\s*GPU0\s+(?:GPU1\b|.*CPU Affinity)", re.MULTILINE)
_LINK: Final = re.compile(r"^\s*GPU\d+\s+.*\b(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS)\b", re.MULTILINE)
_PEERS: Final = {
    "OK": "",
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "not supported",
    "DR": "disabled by the driver's settings",
    "U": "unknown",
}
"""Cells of `nvidia-smi topo -p2p`: whether two GPUs reach each other's memory, and why not. Source: its legend."""


def read_gpu_topology(text: str) -> LinkReport:
    """Return a report whose matrix is the text without prefixes; the probes' reader takes it apart.

    The matrix of `-p2p`, which says nothing of the links, is a check.

    Raises: InputFileError: rows of the matrix are missing.
    Source: NVIDIA nvidia-smi documentation (topo -m and -p2p with their legends).
    """
    plain = "\n".join(without_prefixes(text))
    if "Link Type between" not in plain:
        head = next((line for line in plain.splitlines() if _HEAD.match(line)), "")
        named = re.findall(r"\bGPU\d+\b", head)
        rows = {
            found[0]
            for line in plain.splitlines()
            if _LINK.match(line) and (found := re.findall(r"GPU\d+", line))
        }
        if missing := [name for name in named if name not in rows]:
            raise InputFileError(
                f"the link matrix lacks the rows of {', '.join(missing)}",
                why="the text ends in the middle, or lines were left out",
                fix="paste all of nvidia-smi topo -m",
            )
    # The texts of a machine's links and of its peers follow each other in reports.
    heads = [found.start() for found in _HEAD.finditer(plain)]
    parts = [plain[start:end] for start, end in itertools.pairwise([*heads, len(plain)])]
    peers = {part: check for part in parts if (check := _peers(part)) is not None}
    matrix = "".join(part for part in parts if part not in peers) if peers else plain
    return LinkReport(device="", checks=tuple(peers.values()), matrix=matrix)


def _peers(text: str) -> HealthCheck | None:
    """Return the check of a matrix of peers; None for a matrix of links."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*GPU\d+\s+(?!GPU)", line)]
    cells = {
        (row, place): cell
        for row, words in enumerate(rows)
        for place, cell in enumerate(words[1:])
        if cell != "X"
    }
    if not cells or not set(cells.values()) <= set(_PEERS):
        return None
    apart: dict[str, list[str]] = {}
    for (row, place), cell in cells.items():
        if row < place and cell != "OK":
            apart.setdefault(cell, []).append(f"{row}-{place}")
    every = len(rows) * (len(rows) - 1) // 2
    said = [
        f"{len(pairs)} of {every} pairs copy through the host's memory ({cell}, {_PEERS[cell]}): {', '.join(pairs)}"
        for cell, pairs in apart.items()
    ]
    return HealthCheck("peer access", "warn" if said else "pass", "; ".join(said), "nvidia-smi")


def _is_gpu_topology(text: str) -> bool:
    plain = "\n".join(without_prefixes(text))
    return bool(_HEAD.search(plain) and _LINK.search(plain)) or "Link Type between" in plain


FORMAT: Final = FileFormat(
    "gpu-topology",
    "link matrix of nvidia-smi topo -m or rocm-smi --showtopo",
    "links",
    _is_gpu_topology,
    read_gpu_topology,
)
