"""Prefixes that launchers and log collectors write before every line of a program's output."""

import re
from collections.abc import Iterator
from typing import Final

_PREFIX: Final = re.compile(
    r"""^(?:
      \[\d+(?:,\d+)?\](?:<(?:stdout|stderr|stddiag)>)?:?[ ]?   # mpirun --tag-output and the MPI operator
    | \s{0,4}\d+:[ ]                                            # srun --label, which pads the numbers
    | \[(?:rank|default)\d+\]:[ ]?                              # torchrun
    | [^\W\d_]{3,4}\.?\s+\d{1,2}\s\d\d:\d\d:\d\d\s\S+\s[\w.@-]+\[\d+\]:[ ]   # journald, in any language
    | \[(?:Error|Warning|Info|Debug)\][ ]\([\w ]+\)[ ]           # Lemonade
    | (?:stdout|stderr)\s[FP][ ]                                # container runtimes, behind the time
    | \d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ ]   # kubectl logs --timestamps
    | \[\d{4}-\d\d-\d\d[ T|]\d\d:\d\d:\d\d(?:[ ][A-Z]{2,3}\d+)*\][ ](?:INFO[ ]+)?  # ranks of SGLang, mini-sglang
    | \[(?:pod|container)/[^\]]+\][ ]                           # kubectl logs --prefix
    | \+(?=\|)                                                 # lines of a diff
    | >[ ]                                                      # quotations of mail and of forums
    | [\w./-]+(?:\s[\w./-]+)?\s*[|│][ ]                        # docker compose, stern, kubetail
    | \([\w\s=.-]*(?:pid|rank|ip)[\w\s=.,-]*\)[ ]?              # Ray workers and engine processes
    )""",
    re.VERBOSE,
)
_WITHIN: Final = re.compile(r"(?<=\d)\[\d{1,4}\](?=\s)")
"""Tag of a rank that wrote a line in pieces, of which each has it: 536870912 float sum -1[0] 193909."""
ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Colours and movements of a terminal."""


def without_prefixes(text: str) -> Iterator[str]:
    """Yield the lines of a text without the prefixes of launchers and without colours of a terminal."""
    for line in text.splitlines():
        rest = ESCAPE.sub("", line)
        while found := _PREFIX.match(rest):
            rest = rest[found.end() :]
        yield _WITHIN.sub(" ", rest)
