"""The traffic that a person's options stand for. What only traces and conversations need is imported for them alone."""

import math
from typing import TYPE_CHECKING, Final

from advisor.ask.measures import parse_clients, parse_length_dist, parse_rate, parse_seconds, positive
from advisor.ask.options import LoadOptions
from advisor.ask.together import Apart, OptionDependency, Rule, check_together
from advisor.catalog import profiles
from advisor.catalog.errors import AdvisorError
from advisor.decide.scenario import Conversations, Traffic

if TYPE_CHECKING:
    from advisor.simulator.serving.trace_files import Trace

_USUAL_GAP: Final = "1min"

_TOGETHER: Final[tuple[Rule, ...]] = (
    Apart("--trace", "--shared-prefix-tokens", "hash_ids say which prompts begin alike"),
    OptionDependency(
        "--turn-gap", "--sessions", "--sessions 6, or drop --turn-gap", "--turn-gap needs conversations"
    ),
    Apart("--sessions", "--trace", "a trace says by its hash_ids which prompts continue others"),
    Apart("--sessions", "--concurrency", "turns come at their own instants, not when a client is free"),
    Apart("--sessions", "--shared-prefixes", "all conversations begin with one system prompt"),
    OptionDependency(
        "--shared-prefixes",
        "--shared-prefix-tokens",
        "--shared-prefix-tokens N",
        "--shared-prefixes needs their length",
    ),
    Apart(
        "--rate",
        "--concurrency",
        "a rate says when requests come, a concurrency that each waits for the one before it",
        "give one of them",
    ),
    OptionDependency(
        "--ramp",
        "--concurrency",
        "--concurrency N, or no --ramp",
        "--ramp says when clients begin, and there are none",
    ),
    OptionDependency(
        "--trace-speed", "--trace", "--trace FILE, or no --trace-speed", "--trace-speed belongs to --trace"
    ),
    Apart("--trace-speed", "--rate", "both say how fast the trace goes"),
    *(
        Apart("--trace", name, "a trace has lengths of its own")
        for name in ("--profile", "--input-tokens", "--output-tokens")
    ),
)


def traffic_of(load: LoadOptions) -> Traffic:
    """Return the traffic that a load stands for; the profile `chat` where nothing is said.

    Raises: AdvisorError: parts of it exclude each other or a number is out of range. UnknownNameError: no such
        profile. InputFileError: the trace is malformed.
    """
    check_together([name for name in LoadOptions.__slots__ if getattr(load, name) is not None], _TOGETHER)
    rate = parse_rate(load.rate) if load.rate is not None else None
    clients = parse_clients(load.concurrency) if load.concurrency is not None else None
    if load.trace is not None:
        from advisor.simulator.serving.trace_files import read_trace

        trace = read_trace(load.trace)
        if load.trace_speed is not None:
            trace = trace.sped_up(positive(load.trace_speed, "--trace-speed", example="2"))
        spread = (
            _log_spread([pair[0] for pair in trace.pairs]),
            _log_spread([pair[1] for pair in trace.pairs]),
        )
        return Traffic(
            profile="trace",
            mean_input_tokens=round(trace.mean_input_tokens),
            mean_output_tokens=round(trace.mean_output_tokens),
            input_sigma=spread[0],
            output_sigma=spread[1],
            rate_per_s=rate or trace.rate_per_s,
            concurrency=clients,
            trace=load.trace,
            reused_input_tokens=_reused_tokens(trace, load),
            source="; ".join((str(load.trace), *trace.notes)),
        )
    name = load.profile or "chat"
    profile = profiles.get(name)
    typed = load.input_tokens is not None or load.output_tokens is not None
    mean_input = load.input_tokens or profile.mean_input_tokens
    common = load.shared_prefix_tokens or 0
    if common >= mean_input:
        raise AdvisorError(
            f"--shared-prefix-tokens {common} leaves nothing of a prompt of {mean_input} tokens",
            why="the mean prompt counts its shared beginning",
            fix=f"at most {mean_input - 1}",
        )
    traffic = Traffic(
        profile="custom" if typed else name,
        mean_input_tokens=mean_input,
        mean_output_tokens=load.output_tokens or profile.mean_output_tokens,
        input_sigma=profile.input_sigma,
        output_sigma=profile.output_sigma,
        max_input_tokens=profile.longest_prompt(mean_input),
        rate_per_s=rate,
        concurrency=clients,
        shared_prefix_tokens=common,
        shared_prefixes=load.shared_prefixes or 1,
        reused_input_tokens=float(common),
        source=f"means as typed, spread of the profile {name}" if typed else profile.source,
    )
    traffic = _as_distributed(traffic, load.length_dist)
    return traffic if load.sessions is None else _in_conversations(traffic, load)


def _as_distributed(traffic: Traffic, length_dist: str | None) -> Traffic:
    """Return the traffic with the spread that --length-dist gives its lengths; uniform lengths are drawn by simulations
    alone and leave it as it is.

    Raises: AdvisorError: the text is no distribution.
    """
    kind, number = parse_length_dist(length_dist)
    means = {"profile": "custom", "source": f"means as typed, {length_dist} lengths"}
    if kind == "fixed":
        even = {"input_sigma": 0.0, "output_sigma": 0.0, "max_input_tokens": None}
        return traffic.model_copy(update=even | means)
    if kind == "lognormal":
        spread = {"input_sigma": number, "output_sigma": number, "max_input_tokens": None}
        return traffic.model_copy(update=spread | means)
    return traffic


def _in_conversations(turn: Traffic, load: LoadOptions) -> Traffic:
    """Return the turns of conversations. The typed lengths are their new tokens; a shared prefix is their system
    prompt."""
    from advisor.decide.conversations import in_conversations
    from advisor.decide.load_runs import lengths_of

    common = turn.shared_prefix_tokens
    talk = Conversations(
        turn=turn.behind_beginning.model_copy(update={"reused_input_tokens": 0.0}),
        mean_turns=load.sessions,
        gap_s=parse_seconds(load.turn_gap or _USUAL_GAP, "--turn-gap"),
        common_tokens=common,
    )
    return in_conversations(talk, lengths_of(talk.turn))


def _reused_tokens(trace: "Trace", load: LoadOptions) -> float:
    """Return tokens of a trace's mean prompt that earlier ones had; none where clients do not follow it."""
    from advisor.simulator.serving.content import mean_reused_tokens
    from advisor.simulator.serving.trace_replay import contents_of

    contents = contents_of(trace) if load.concurrency is None else None
    return mean_reused_tokens(contents) if contents is not None else 0.0


def _log_spread(lengths: list[int]) -> float:
    """Return the standard deviation of the logarithm of lengths."""
    logs = [math.log(length) for length in lengths]
    mean = math.fsum(logs) / len(logs)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / len(logs))
