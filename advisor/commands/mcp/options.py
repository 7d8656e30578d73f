"""Options of `advisor mcp`: the commands as tools of agents."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.cli.command import command


@command("mcp", is_local=True, has_table=False)
@dataclass(frozen=True, slots=True)
class McpInput:
    """Answer an agent over standard input and output: the commands as tools of the Model Context Protocol."""

    list_tools: Annotated[bool, Option("--list", help="Print the tools instead of serving.")] = False
    tools: Annotated[
        str, Option(metavar="usual|all|NAME,...", help="Tools that the agent gets, e.g. recommend,cost.")
    ] = "usual"
    limit: Annotated[str, Option(metavar="TIME", help="Longest time of one question.")] = "120s"
