"""Answers of `advisor mcp`: the list of tools, or the end of the conversation."""

import asyncio
import os
import sys
from typing import Final

from advisor.ask.measures import parse_seconds
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError, MissingHardwareError, install_command
from advisor.catalog.resolve import near_misses
from advisor.cli.notes import note
from advisor.commands.mcp.options import McpInput
from advisor.render.answer import Answer, Paragraph, Table, columns

MOST_WORKERS: Final = 2


def mcp(asked: McpInput, shared: SharedOptions) -> Answer:
    """Serve an agent until its end of the conversation closes, or list the tools.

    Raises: AdvisorError: no tool has that name. MissingHardwareError: the package mcp is not installed.
    """
    try:
        from advisor.service.agents import serve_stdio, tool_name, tools
    except ImportError:
        raise MissingHardwareError(
            "the package mcp, which speaks to agents, is not installed", fix=install_command("mcp")
        ) from None
    names = _names(asked.tools)
    limit_s = parse_seconds(asked.limit, "--limit")
    if asked.list_tools:
        found = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in tools(names)
        ]
        rows = tuple((str(tool["name"]), str(tool["description"])) for tool in found)
        head = Paragraph(f"{len(rows)} tools for an agent; --json prints their schemas", emphasis=True)
        return Answer(
            result={"kind": "tools", "tools": found},
            inputs={"tools": [tool_name(name) for name in names]},
            blocks=(head, Table(columns("tool | answers~"), rows)),
        )
    from advisor.service.pool import WorkerPool

    if sys.stdin.isatty() and not shared.quiet:
        note("an agent starts this command and speaks to it; advisor mcp --list shows the tools")
    asyncio.run(serve_stdio(WorkerPool(min(MOST_WORKERS, os.cpu_count() or 1), limit_s), names))
    return Answer(result={"kind": "tools"}, inputs={}, blocks=())


def _names(text: str) -> tuple[str, ...]:
    """Return the commands of some tools.

    Raises: AdvisorError: there is no such tool.
    """
    from advisor.service.agents import USUAL, tool_name
    from advisor.service.questions import questions

    known = {tool_name(name): name for name in questions()}
    if text in ("usual", "all"):
        return USUAL if text == "usual" else tuple(known.values())
    found = []
    for word in text.split(","):
        name = word.strip().replace(" ", "_")
        if name not in known:
            near = near_misses(name, list(known), {})
            raise AdvisorError(
                f"--tools {word}: no such tool",
                why=f"there are {', '.join(known)}",
                fix=f"--tools {near[0]}" if near else "--tools usual",
            )
        found.append(known[name])
    return tuple(found)
