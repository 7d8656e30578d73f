"""Accelerators of Slurm's nodes, as sinfo, scontrol and gres.conf state them."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from advisor.catalog.formats.accelerator_names import resolve_name

_GRES: Final = re.compile(r"\bgpu:([A-Za-z][\w.-]*):(\d+)")
_GRES_FILE: Final = re.compile(
    r"\bName=gpu\s.*?Type=([A-Za-z][\w.-]*).*?(?:File=\S*\[(\d+)-(\d+)\]|Count=(\d+)|File=\S+)"
)
"""Line of Slurm's gres.conf: files of the accelerators, or their number."""
_HOSTS: Final = re.compile(r"([\w-]+)\[([\d,-]+)\]")
_MOST_NODES: Final = 100_000
"""Nodes of one range of names that are counted: no cluster has more."""


def slurm_accelerators(text: str) -> dict[str, int]:
    """Return the accelerators of Slurm's nodes by id: `gpu:h100:8` on each node of its line."""
    found: dict[str, int] = defaultdict(int)
    hosts: set[str] = set()
    titles: list[str] = []
    for line in text.splitlines():
        if "NODES" in line.split():
            titles = line.split()
        granted = _GRES.findall(line)
        if configured := _GRES_FILE.search(line):
            board, first, last, count = configured.groups()
            granted = [(board, count or (int(last) - int(first) + 1 if last else 1))]
            line = line[: configured.start()]  # ranges behind it are those of files
        if not granted:
            continue
        named = {host for base, ranges in _HOSTS.findall(line) for host in _hosts_of(base, ranges)}
        cells = line.split()
        number = cells[titles.index("NODES")] if "NODES" in titles and len(cells) == len(titles) else ""
        if named and named <= hosts:
            continue
        hosts |= named
        for board, count in granted:
            id_ = resolve_name(board, line, text)
            if id_ is not None:
                nodes = int(number) if number.isdigit() else max(1, len(named))
                found[id_] += int(count) * nodes
    return dict(found)


def _hosts_of(base: str, ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            end = min(int(last or first), int(first) + _MOST_NODES)
            yield from (f"{base}{number}" for number in range(int(first), end + 1))
