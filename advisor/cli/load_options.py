"""Options that say what is asked of a service; shared by every command that serves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

PANEL: Final = "Load"


def _option(metavar: str, text: str, default: str | bool = False, **more: Any) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=PANEL, show_default=default, **more)


def _tokens(text: str, default: str = "of the profile") -> Any:
    return _option("N", text, default, min=1, max=10_000_000)


Rate = Annotated[str | None, _option("R", "Requests per second: 10, 10/s or 600/min.")]


@dataclass(frozen=True, slots=True)
class Load:
    """The load as typed: a profile or token counts or a trace; a rate or a concurrency or neither; how it is drawn."""

    rate: Rate = None
    concurrency: Annotated[
        int | None,
        _option("C", "Clients that each wait for one answer before the next request.", min=1, max=100_000),
    ] = None
    input_tokens: Annotated[int | None, _tokens("Mean prompt.")] = None
    output_tokens: Annotated[int | None, _tokens("Mean answer.")] = None
    trace: Annotated[
        Path | None, _option("FILE", "Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns.")
    ] = None
    trace_speed: Annotated[
        float | None, _option("K", "Replay the trace K times as fast.", "as it was", max=1_000_000)
    ] = None
    profile: Annotated[
        str | None, _option("NAME", "Published lengths: chat, rag, code, agent, batch, reasoning.", "chat")
    ] = None
    shared_prefix_tokens: Annotated[
        int | None,
        _tokens(
            "Tokens at the beginning of the mean prompt that others have too: a system prompt, a document.",
            "none",
        ),
    ] = None
    shared_prefixes: Annotated[
        int | None,
        _option("K", "How many such beginnings there are, equally often.", "1", min=1, max=1_000_000),
    ] = None
    length_dist: Annotated[
        str | None, _option("DIST", "fixed, uniform:0.8 or lognormal:SIGMA.", "spread of the profile")
    ] = None
    requests: Annotated[
        int | None, _option("N", "How many are simulated.", "2000, or 10 a client", min=1, max=100_000_000)
    ] = None
