"""Names of graphics cards in the rows of programs that list hardware: lspci, lshw, inxi, nvidia-smi, neofetch.

The counter of a machine's accelerators and the reader of lists of parts both take names from here.
"""

import re
from typing import Final

_LABEL: Final = re.compile(
    r"""^(?:
      .*\b(?:VGA|3D|Display)\b[^:"]*(?:controller|compatible)[^:"]*[:"]   # lspci, lshw
    | .*\sdisplay\s{2,}                                                   # lshw -short
    | \|\s+\d+\s{2,}(?=\S.*\s(?:On|Off|N/A|WDDM|TCC)\s*\|)                # table of nvidia-smi
    | (?:.*\s{3,})?\W*                                                    # a picture, as neofetch draws it
      (?:GPU[ ]?\d*|Device-\d+|Card[ ][Ss]eries|Device[ ]Name|Chipset[ ]Model|(?:Video|Graphics)[ ]?Card)
      \s*(?:\([^)]*\)|\[\d+\])?\s*:
    )\s*(.+)$""",
    re.VERBOSE,
)
"""Words that programs write before the name of a graphics card."""
_BEHIND: Final = re.compile(
    r"\s+(?:\(rev\s\w|\(UUID|vendor:\s|driver:\s|@\s|\[(?:Discrete|Integrated|Virtual)\]|(?:On|Off|N/A|WDDM|TCC)\s*\|)"
)
"""Start of the words behind the name."""
_IN_BRACKETS: Final = re.compile(r"\[((?!AMD/ATI\]|[0-9a-f]{4}(?::[0-9a-f]{4})?\])[^\]]*\d[^\]]*)\]")
"""Name of a board behind that of its chip; other brackets hold PCI ids and classes."""
_ID: Final = re.compile(r"\s*\[[0-9a-f]{4}(?::[0-9a-f]{4})?\]")
_INTEGRATED: Final = re.compile(
    r"\b(?:ASPEED|Matrox|UHD|HD Graphics|Iris|Raphael|Granite Ridge|Cezanne|Renoir|Picasso|Phoenix\d?|Rembrandt|"
    r"Lucienne|Barcelo|(?:Alder|Raptor|Meteor|Arrow) ?Lake(?:-\w+)?|GT[123]|Vega Series|Integrated|Virtio|VMware)\b",
    re.IGNORECASE,
)
"""Graphics of a CPU or of a board's controller, which are no card."""


def graphics_in(row: str) -> str | None:
    """Return the name of the graphics card in a row as its program writes it; empty for the graphics of a processor or
    of a board's controller, None for a row of anything else."""
    found = _LABEL.match(row)
    if found is None:
        return None
    if _INTEGRATED.search(row):
        return ""
    text = _BEHIND.split(found[1])[0]
    named = _IN_BRACKETS.findall(text)
    return str(named[-1] if named else _ID.sub("", text).strip())
