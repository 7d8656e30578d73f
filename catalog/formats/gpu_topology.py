"""Link matrix of `nvidia-smi topo -m` or `rocm-smi --showtopo`, as far as a reader must recognise it."""

import re
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import LinkReport

_HEAD: Final = re.compile(r"^\s*GPU0\s+(?:GPU1\b|.*CPU Affinity)", re.MULTILINE)
_LINK: Final = re.compile(r"^\s*GPU\d+\s+.*\b(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS)\b", re.MULTILINE)


def read_gpu_topology(text: str) -> LinkReport:
    """Return a report whose matrix is the text without prefixes; the probes' reader takes it apart.

    Raises: InputFileError: rows of the matrix are missing.
    Source: NVIDIA nvidia-smi documentation (topo -m and its legend).
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
    return LinkReport(device="", matrix=plain)


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
