"""Output of CUDA's bandwidthTest: copies between host and one GPU, as text or as its CSV lines."""

import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import LinkCheck, LinkRate, LinkReport
from advisor.catalog.units import GB, MB

_BLOCK: Final = re.compile(
    r"^\s*((?:Host|Device) to (?:Host|Device)) Bandwidth.*\n\s*(PINNED|PAGEABLE)?.*\n"
    r"\s*Transfer Size \(Bytes\)\s+Bandwidth\((GB|MB)/s\)\s*\n((?:\s*\d+\s+[\d.]+\s*(?:\n|$))+)",
    re.MULTILINE,
)
"""Title, kind of host memory, unit and rows of one direction."""
_LINE: Final = re.compile(
    r"bandwidthTest-([HD]2[HD])(?:-(Pinned|Paged))?, Bandwidth = ([\d.]+) (GB|MB)/s.*?Size = (\d+) bytes"
)
_DEVICE: Final = re.compile(r"^\s*Device 0: (.+?)\s*$", re.MULTILINE)
_UNITS: Final = {"GB": GB, "MB": MB}
_CHECKS: Final[dict[str, LinkCheck]] = {
    "Host to Device": "host_link.h2d",
    "Device to Host": "host_link.d2h",
    "H2D": "host_link.h2d",
    "D2H": "host_link.d2h",
}


def read_bandwidth_test(text: str) -> LinkReport:
    """Return the rates between host and GPU from pinned memory, of the largest transfer of each direction.

    Copies within the GPU and those of pageable memory, which the processor slows, are named as not judged.

    Raises: InputFileError: no direction between host and GPU from pinned memory.
    Source: NVIDIA/cuda-samples v12.5, Samples/1_Utilities/bandwidthTest.
    """
    plain = "\n".join(without_prefixes(text))
    rates: dict[LinkCheck, tuple[int, LinkRate]] = {}
    unread: dict[str, None] = {}
    for title, is_pinned, num_bytes, bytes_per_s in _transfers(plain):
        check = _CHECKS.get(title)
        if check is None or not is_pinned:
            unread[title if check is None else f"{title} from pageable memory"] = None
        elif num_bytes >= rates.get(check, (0, None))[0]:
            is_sent = check == "host_link.h2d"
            source, target = (None, 0) if is_sent else (0, None)
            rates[check] = (num_bytes, LinkRate(check, source, target, bytes_per_s, "bandwidthTest"))
    if not rates:
        raise InputFileError(
            "no copy between host and GPU from pinned memory in the text",
            why="it ends before them, or ran with --memory=pageable or --dtod alone",
            fix="run bandwidthTest --memory=pinned",
        )
    device = _DEVICE.search(plain)
    return LinkReport(
        device[1] if device else "", rates=tuple(rate for _, rate in rates.values()), unread=tuple(unread)
    )


def _transfers(text: str) -> Iterator[tuple[str, bool, int, float]]:
    """Yield direction, whether from pinned memory, bytes and rate of each transfer."""
    for title, memory, unit, rows in _BLOCK.findall(text):
        for num_bytes, rate in (row.split() for row in rows.splitlines() if row.strip()):
            yield title, memory != "PAGEABLE", int(num_bytes), float(rate) * _UNITS[unit]
    for title, memory, rate, unit, num_bytes in _LINE.findall(text):
        yield title, memory != "Paged", int(num_bytes), float(rate) * _UNITS[unit]


def _is_bandwidth_test(text: str) -> bool:
    return "[CUDA Bandwidth Test]" in text or bool(_BLOCK.search(text) or _LINE.search(text))


FORMAT: Final = FileFormat(
    "bandwidth-test", "output of CUDA's bandwidthTest", "links", _is_bandwidth_test, read_bandwidth_test
)
