"""`advisor simulate ...`: what would happen."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from advisor.cli import load_options, serve_options
from advisor.cli.command import command, show_help_without_subcommand
from advisor.cli.options import Shared
from advisor.cli.serve_options import degree, layout, objective, pool, pool_gpu, setting
from advisor.cli.train_options import TrainInput, train_options
from advisor.render.answer import Answer

app = typer.Typer(help="What would happen: serving, training, collectives, without a GPU.")
app.callback(invoke_without_command=True)(show_help_without_subcommand)

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
Router = Literal["round_robin", "least_outstanding", "prefix_affinity"]
Library = Literal["engine", "vllm", "sglang", "tensorrt-llm", "nccl"]


@command(app, "serve", uses_calibration=True)
def serve(
    shared: Shared,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Id, size (70b), Hugging Face id or config.json.")
    ],
    gpu: Annotated[str, typer.Option(metavar="ID", help="Accelerator; h100 and the like will do.")],
    tp: Annotated[int, degree("Tensor parallelism.")] = 1,
    pp: Annotated[int, degree("Pipeline stages.")] = 1,
    ep: Annotated[int, degree("Expert parallelism, over the same accelerators.")] = 1,
    dp: Annotated[int, degree("Attention data parallelism inside a replica.")] = 1,
    replicas: Annotated[int, degree("Equal replicas behind a router.")] = 1,
    router: Annotated[Router, layout("RULE", "How the router deals out requests.")] = "least_outstanding",
    precision: Annotated[str | None, layout("FORMAT", "Weights.", "the checkpoint's")] = None,
    kv_precision: Annotated[str, layout("FORMAT", "KV cache.")] = "bf16",
    engine: Annotated[str, layout("NAME", "Serving engine.")] = "vllm",
    max_num_seqs: Annotated[int | None, setting("Sequences that may run at once.")] = None,
    max_num_batched_tokens: Annotated[int | None, setting("Tokens of one engine step.")] = None,
    prefix_caching: serve_options.PrefixCaching = None,
    speculative: serve_options.Speculative = None,
    draft_tokens: serve_options.DraftTokens = None,
    acceptance: serve_options.Acceptance = None,
    prefill_workers: Annotated[int | None, pool("N", "Workers for prompts alone; the others decode.")] = None,
    decode_workers: Annotated[int | None, pool("N", "Workers that decode, with --prefill-workers.")] = None,
    prefill_gpu: Annotated[str | None, pool_gpu("Accelerator of prefill workers.")] = None,
    prefill_tp: Annotated[int | None, pool("N", "Tensor parallelism of a prefill worker.", "as --tp")] = None,
    rate: load_options.Rate = None,
    concurrency: load_options.Concurrency = None,
    input_tokens: load_options.InputTokens = None,
    output_tokens: load_options.OutputTokens = None,
    trace: load_options.TraceFile = None,
    trace_speed: load_options.TraceSpeed = None,
    profile: load_options.ProfileName = None,
    shared_prefix_tokens: load_options.PrefixTokens = None,
    shared_prefixes: load_options.NumPrefixes = None,
    length_dist: load_options.LengthDistribution = None,
    requests: load_options.NumRequests = None,
    ttft: Annotated[str | None, objective("Time to the first token", "1s")] = None,
    tpot: Annotated[str | None, objective("Time per output token", "50ms")] = None,
    step_by_step: serve_options.StepByStep = False,
    records: serve_options.RecordsFile = None,
) -> Answer:
    """Simulate one deployment under one load: latencies, rates, cache and memory."""
    from advisor.cli.pools_run import PoolsInput
    from advisor.cli.scenario_input import LoadInput
    from advisor.cli.serve_input import DeploymentInput, LoadForm
    from advisor.cli.serve_run import RunInput, run_serving
    from advisor.cli.speculation_run import SpeculationInput

    deployment = DeploymentInput(model, gpu, engine, tp, pp, ep, dp, replicas, precision, kv_precision)
    load = LoadInput(rate, concurrency, input_tokens, output_tokens, trace, profile, trace_speed)
    form = LoadForm(length_dist, requests, shared_prefix_tokens, shared_prefixes)
    how = RunInput(
        form, max_num_seqs, max_num_batched_tokens, prefix_caching, ttft, tpot, router, step_by_step, records,
        SpeculationInput(speculative, draft_tokens, acceptance),
        PoolsInput(prefill_workers, decode_workers, prefill_gpu, prefill_tp),
    )  # fmt: skip
    return run_serving(deployment, load, how, shared)


@command(app, "train", uses_calibration=True, group=train_options)
def train(
    shared: Shared,
    typed: TrainInput,
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="PLAN", help="Options in a TOML file, or what `advisor recommend --plan` wrote.",
            show_default=False,
        ),
    ] = None,
) -> Answer:  # fmt: skip
    """Simulate one step of one training plan: time by part, utilisation, memory by stage, the pipeline."""
    from advisor.cli.train_run import run_training

    return run_training(typed, plan, shared)


@command(app, "fleet", uses_calibration=True)
def fleet(
    shared: Shared,
    description: Annotated[
        str,
        typer.Argument(
            metavar="FLEET.toml", help="A fleet file, or an example: autoscaling, failures, reserved-spot, tenants."
        ),
    ],
    show: Annotated[
        bool, typer.Option("--show", help="Print the file instead, to start one's own from.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1024, help="Processes, where replicas do not depend on each other.",
            show_default="as many as pay",
        ),
    ] = None,
    step_by_step: serve_options.StepByStep = False,
    records: serve_options.RecordsFile = None,
) -> Answer:  # fmt: skip
    """Simulate a fleet: pools, router, scaling, failures and load of a file; latencies, goodput, cost over time."""
    from advisor.cli.fleet_run import FleetOptions, run_fleet, show_fleet

    if show:
        return show_fleet(description)
    return run_fleet(description, FleetOptions(processes, step_by_step, records), shared)


@command(app, "trace")
def trace(
    shared: Shared,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded requests, as for --trace.")],
    speed: Annotated[float, typer.Option(metavar="K", help="As if replayed K times as fast.")] = 1.0,
) -> Answer:
    """Describe a trace: rate, burstiness, lengths, common beginnings; and traffic like it for a fleet file."""
    from advisor.cli.trace_run import run_trace

    return run_trace(file, speed)


@command(app, "collective", uses_calibration=True)
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
    network: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'NDR 8x400 SHARP', 'PCIe4 no P2P'.",
            show_default="the accelerator's usual",
        ),
    ] = None,
    oversubscription: Annotated[
        float, typer.Option(metavar="F", help="Of a fat tree, above leaves of 32 nodes: 2 for half uplinks.")
    ] = 1.0,
) -> Answer:
    """Predict a collective: time, algorithm, bus bandwidth, and where another algorithm takes over."""
    from advisor.cli.calibration_file import given_calibration
    from advisor.cli.measures import parse_bytes
    from advisor.cli.topology_input import group_of
    from advisor.render.calibration_view import with_calibration
    from advisor.render.collective_view import collective_answer
    from advisor.simulator.collectives.fat_tree import oversubscribed

    calibration = given_calibration(shared.calibration)
    gpu_id, group, note = group_of(gpu, gpus, nodes, calibration, network)
    group = oversubscribed(group, op, oversubscription)
    answer = collective_answer(op, parse_bytes(size, "--bytes"), group, algorithm, gpu=gpu_id, note=note)
    return with_calibration(answer, calibration, (gpu_id,))
