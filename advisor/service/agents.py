"""Tools for agents: each command as a tool of the Model Context Protocol, over standard input and output."""

import json
from collections.abc import Sequence
from typing import Any, Final

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from advisor import __version__
from advisor.catalog.errors import AdvisorError
from advisor.cli.errors import error_document
from advisor.cli.keywords import command_of
from advisor.service.pool import Reply, WorkerPool
from advisor.service.questions import answer_schema, schema_of

USUAL: Final = (
    "recommend",
    "cost",
    "build",
    "compare",
    "memory",
    "roofline",
    "simulate serve",
    "simulate train",
    "simulate fleet",
    "catalog gpus",
    "catalog models",
    "catalog prices",
    "catalog show",
)
"""Tools that an agent gets unless others are named: the schemas of all take much of its context."""
INSTRUCTIONS: Final = (
    "advisor plans hardware for AI models: which accelerators, how many, in which layout, at what cost and latency, "
    "with 80 % intervals. Units are SI and stand in the names of fields. An error says how to fix the question."
)


def tool_name(name: str) -> str:
    """Return the name of the tool of a command: `simulate serve` is simulate_serve."""
    return name.replace(" ", "_").replace("-", "_")


def tools(names: Sequence[str]) -> list[types.Tool]:
    """Return the tools of some commands, with the schemas of their keywords."""
    return [
        types.Tool(
            name=tool_name(name),
            description=" ".join((command_of(name).inputs.__doc__ or "").split()),
            input_schema=schema_of(name),
            output_schema=answer_schema(),
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        for name in names
    ]


def server_of(pool: WorkerPool, names: Sequence[str]) -> "Server[Any]":
    """Return the server that answers some commands by the workers of a pool."""
    known = {tool_name(name): name for name in names}

    async def list_tools(
        context: ServerRequestContext[Any], asked: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools(tuple(known.values())))

    async def call_tool(
        context: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        count = 0

        async def tell(text: str) -> None:
            nonlocal count
            count += 1
            await context.session.report_progress(float(count), None, text)

        try:
            return _result(await pool.ask(known.get(asked.name, asked.name), asked.arguments or {}, tell))
        except AdvisorError as error:
            return _result(error_document(error))

    return Server(
        "advisor",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(reply: Reply) -> types.CallToolResult:
    """Return a reply as a tool does: the document as data, and what a person would read as text."""
    if "error" in reply:
        error = reply["error"]
        lines = [error["what"], *(f"{name}: {error[name]}" for name in ("why", "fix", "hint") if error[name])]
        return types.CallToolResult(
            content=[types.TextContent(text="\n".join(lines))],
            structured_content={"error": error},
            is_error=True,
        )
    notes = "".join(f"note: {note}\n" for note in reply["notes"])
    return types.CallToolResult(
        content=[types.TextContent(text=notes + reply["markdown"])],
        structured_content=json.loads(reply["document"]),
    )


async def serve_stdio(pool: WorkerPool, names: Sequence[str]) -> None:
    """Answer an agent on standard input and output until it ends."""
    from mcp.server.stdio import stdio_server

    server = server_of(pool, names)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await pool.close()
