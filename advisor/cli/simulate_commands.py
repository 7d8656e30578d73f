"""`advisor simulate ...`: what would happen."""

from typing import Annotated, Literal

import typer

from advisor.cli.command import command, show_help_without_subcommand
from advisor.cli.options import Shared
from advisor.render.answer import Answer

app = typer.Typer(help="What would happen: collectives and serving, without a GPU.")
app.callback(invoke_without_command=True)(show_help_without_subcommand)

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
Library = Literal["engine", "vllm", "sglang", "tensorrt-llm", "nccl"]


@command(app, "collective")
def collective(
    shared: Shared,
    op: Annotated[Operation, typer.Option(help="Which collective.")] = "all_reduce",
    size: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Message size as nccl-tests counts it, e.g. 1GiB.")
    ] = "1GiB",
    gpu: Annotated[
        str, typer.Option(metavar="ID", help="Accelerator; h100 and the like will do.")
    ] = "h100-sxm",
    gpus: Annotated[int, typer.Option(metavar="N", min=2, help="Ranks in all, one per accelerator.")] = 8,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Nodes they stand in.", show_default="as few as the fabric allows"
        ),
    ] = None,
    algorithm: Annotated[
        Library,
        typer.Option(help="Whose algorithms may be chosen: any engine's, one engine's, or NCCL's alone."),
    ] = "engine",
) -> Answer:
    """Predict a collective: time, algorithm, bus bandwidth, and where another algorithm takes over."""
    from advisor.cli.measures import parse_bytes
    from advisor.cli.topology_input import group_of
    from advisor.render.collective_view import collective_answer

    gpu_id, group, note = group_of(gpu, gpus, nodes)
    return collective_answer(op, parse_bytes(size, "--bytes"), group, algorithm, gpu=gpu_id, note=note)
