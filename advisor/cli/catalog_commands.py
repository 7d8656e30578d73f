"""`advisor catalog ...`: what the program knows, with filters, as a table or as data."""

from typing import Annotated, Literal

import typer

from advisor.cli.command import command, show_help_without_subcommand
from advisor.cli.options import Shared
from advisor.render.answer import Answer

app = typer.Typer(help="What the catalog knows: accelerators, models, prices, engines.")
app.callback(invoke_without_command=True)(show_help_without_subcommand)

GpuOrder = Literal["id", "memory", "bandwidth", "bf16", "fp8", "fp4", "power", "released"]


@command(app, "gpus")
def gpus(
    shared: Shared,
    vendor: Annotated[str | None, typer.Option(help="Only this vendor, e.g. nvidia.")] = None,
    family: Annotated[str | None, typer.Option(help="Only this architecture, e.g. hopper.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only what this engine runs on, e.g. vllm.")] = None,
    min_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="At least so much, e.g. 80GB.")
    ] = None,
    sort: Annotated[GpuOrder, typer.Option(help="Order; numbers come largest first.")] = "id",
) -> Answer:
    """List accelerators: memory, bandwidth, dense peaks, power, links."""
    from advisor.cli.catalog_queries import select_accelerators
    from advisor.cli.measures import parse_bytes
    from advisor.render.catalog_view import accelerators_answer

    memory_bytes = parse_bytes(min_memory, "--min-memory") if min_memory else 0.0
    records = select_accelerators(vendor, family, engine, memory_bytes, sort)
    filters = {
        "vendor": vendor,
        "family": family,
        "engine": engine,
        "min_memory_bytes": memory_bytes,
        "sort": sort,
    }
    return accelerators_answer(records, filters)
