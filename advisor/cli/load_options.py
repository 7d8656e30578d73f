"""Options that say what is asked of a service; shared by every command that serves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from typer import Option

PANEL: Final = "Load"

Rate = Annotated[
    str | None,
    Option(
        metavar="R",
        help="Requests per second: 10, 10/s or 600/min.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Concurrency = Annotated[
    int | None,
    Option(
        metavar="C",
        min=1,
        help="Clients that each wait for one answer before the next request.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
InputTokens = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        max=10_000_000,
        help="Mean prompt.",
        rich_help_panel=PANEL,
        show_default="of the profile",
    ),
]
OutputTokens = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        max=10_000_000,
        help="Mean answer.",
        rich_help_panel=PANEL,
        show_default="of the profile",
    ),
]
TraceFile = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
TraceSpeed = Annotated[
    float | None,
    Option(
        metavar="K",
        help="Replay the trace K times as fast.",
        rich_help_panel=PANEL,
        show_default="as it was",
    ),
]
PrefixTokens = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        max=10_000_000,
        help="Tokens at the beginning of the mean prompt that others have too: a system prompt, a document.",
        rich_help_panel=PANEL,
        show_default="none",
    ),
]
NumPrefixes = Annotated[
    int | None,
    Option(
        metavar="K",
        min=1,
        max=1_000_000,
        help="How many such beginnings there are, equally often.",
        rich_help_panel=PANEL,
        show_default="1",
    ),
]
ProfileName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Published lengths: chat, rag, code, agent, batch, reasoning.",
        rich_help_panel=PANEL,
        show_default="chat",
    ),
]
LengthDistribution = Annotated[
    str | None,
    Option(
        metavar="DIST",
        help="fixed, uniform:0.8 or lognormal:SIGMA.",
        rich_help_panel=PANEL,
        show_default="spread of the profile",
    ),
]
NumRequests = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        max=100_000_000,
        help="How many are simulated.",
        rich_help_panel=PANEL,
        show_default="2000, or 10 a client",
    ),
]


@dataclass(frozen=True, slots=True)
class Load:
    """The load as typed: a profile or token counts or a trace; a rate or a concurrency or neither; how it is drawn."""

    rate: Rate = None
    concurrency: Concurrency = None
    input_tokens: InputTokens = None
    output_tokens: OutputTokens = None
    trace: TraceFile = None
    trace_speed: TraceSpeed = None
    profile: ProfileName = None
    shared_prefix_tokens: PrefixTokens = None
    shared_prefixes: NumPrefixes = None
    length_dist: LengthDistribution = None
    requests: NumRequests = None
