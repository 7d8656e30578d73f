"""Options of `advisor serve-api`: the commands over HTTP."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.ask.options import Effect
from advisor.cli.command import command


@command("serve-api", is_local=True, has_table=False)
@dataclass(frozen=True, slots=True)
class ServeApiInput:
    """Answer questions over HTTP: the commands as JSON, on this machine unless --host says otherwise."""

    schema: Annotated[bool, Option("--schema", help="Print the OpenAPI description instead of serving.")] = (
        False
    )
    host: Annotated[
        str,
        Option(metavar="ADDRESS", help="Address to listen on; others than loopback let other machines ask."),
        Effect.OPENS,
    ] = "127.0.0.1"
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")] = 8765
    workers: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            max=256,
            help="Questions answered at once.",
            show_default="processors, at most 4",
        ),
    ] = None
    limit: Annotated[str, Option(metavar="TIME", help="Longest time of one question.")] = "60s"
    max_bytes: Annotated[
        int, Option(metavar="N", min=100, max=1_000_000_000, help="Bytes of the largest question.")
    ] = 1_000_000
