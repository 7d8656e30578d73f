"""Matrices of copy rates as rocm-bandwidth-test and CUDA's p2pBandwidthLatencyTest print them."""

import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import LinkCheck, LinkRate, LinkReport
from advisor.catalog.units import GB

_TITLE: Final = re.compile(
    r"^\s*(Unidirectional (?:P2P=\w+ Bandwidth(?: \(P2P Writes\))? Matrix|copy peak bandwidth)) \(?([^)\s]+)\)?\s*$"
)
_OTHER: Final = re.compile(r"bandwidth|latency|access|distance|matrix", re.IGNORECASE)
"""Words of the title of any other matrix."""
_DEVICE: Final = re.compile(r"^\s*Device:\s*(\d+),\s*([^,\n]+)", re.MULTILINE)
_UNIT: Final = "GB/s"
_Rows = dict[int, dict[int, float | None]]


def read_copy_matrices(text: str) -> LinkReport:
    """Return the rates of one direction between GPUs and between host and GPUs.

    A device without a rate to itself is a processor. With peer access and without, the rates with it count.

    Raises: InputFileError: no matrix of one direction, or one in another unit than GB/s.
    Source: ROCm/rocm_bandwidth_test; NVIDIA/cuda-samples Samples/5_Domain_Specific/p2pBandwidthLatencyTest.
    """
    plain = "\n".join(without_prefixes(text))
    matrices = dict(_matrices(plain))
    title = next((name for name in matrices if "Disabled" not in name), next(iter(matrices), ""))
    if not matrices.get(title):
        raise InputFileError(
            "no matrix of unidirectional bandwidth in the text",
            why="it ends before that matrix, or the test was not run",
            fix="run rocm-bandwidth-test -a, or p2pBandwidthLatencyTest",
        )
    rows = matrices[title]
    gpus = [device for device in sorted(rows) if rows[device].get(device) is not None]
    number = {device: place for place, device in enumerate(gpus)}
    names = {int(device): name.strip() for device, name in _DEVICE.findall(plain)}
    return LinkReport(names.get(gpus[0], "") if gpus else "", rates=tuple(_rates(rows, number, title)))


def _rates(rows: _Rows, number: dict[int, int], title: str) -> Iterator[LinkRate]:
    for source, cells in rows.items():
        for target, value in cells.items():
            if value is None or source == target or not (source in number or target in number):
                continue
            ends = (number.get(source), number.get(target))
            check: LinkCheck = (
                "host_link.h2d" if ends[0] is None else "host_link.d2h" if ends[1] is None else "peer.copy"
            )
            yield LinkRate(check, *ends, value * GB, title)


def _matrices(text: str) -> Iterator[tuple[str, _Rows]]:
    """Yield title and cells of each matrix of one direction; a row that was cut is left out.

    Raises: InputFileError: a matrix is in another unit.
    """
    title = ""
    columns: list[int] = []
    rows: _Rows = {}
    for line in text.splitlines():
        words = line.split()
        titled = _TITLE.match(line)
        if titled or _OTHER.search(line):
            if rows:
                yield title, rows
            title = titled[1] if titled else ""
            columns = []
            rows = {}
            if titled and titled[2] != _UNIT:
                raise InputFileError(
                    f"{titled[1]} is in {titled[2]}",
                    why=f"only {_UNIT} is read",
                    fix="give the output as its program prints it",
                )
        elif title and words[:1] in (["D/D"], ["D\\D"]):
            columns = [int(word) for word in words[1:] if word.isdigit()]
        elif columns and len(words) == len(columns) + 1 and words[0].isdigit():
            rows[int(words[0])] = {
                column: _number(cell) for column, cell in zip(columns, words[1:], strict=True)
            }
    if rows:
        yield title, rows


def _number(cell: str) -> float | None:
    try:
        return float(cell) or None
    except ValueError:
        return None  # N/A


def _is_copy_matrices(text: str) -> bool:
    return "RocmBandwidthTest Version" in text or bool(
        re.search(r"P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test|^\s*D[/\\]D\s+\d", text, re.MULTILINE)
    )


FORMAT: Final = FileFormat(
    "copy-matrices",
    "output of rocm-bandwidth-test or p2pBandwidthLatencyTest",
    "links",
    _is_copy_matrices,
    read_copy_matrices,
)
