"""The cost of each context window: the scenario repeated with servers that accept longer requests."""

from collections.abc import Callable
from typing import TypeVar

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.published import context_limits
from advisor.catalog.schema import Model
from advisor.decide.decision import Rung
from advisor.decide.ranking import Planned
from advisor.decide.reason import NoAnswerError, NothingCarries, Reason, RequestsTooLong, WindowTooSmall
from advisor.decide.scenario import Scenario, context_window
from advisor.decide.served_option import option_of
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload, simulate

Done = TypeVar("Done")


def tier_scenario(scenario: Scenario, tokens: int) -> Scenario:
    """Return the scenario for servers that accept requests of `tokens` tokens."""
    output = min(scenario.traffic.longest_output_tokens, max(1, tokens // 2))
    return scenario.with_traffic(max_input_tokens=tokens - output, max_output_tokens=output)


def readable_windows(scenario: Scenario, model: Model) -> list[int]:
    """Return the windows of a scenario that the model reads and its load fits in, largest first [tokens]."""
    return sorted(
        {tokens for tokens in scenario.max_contexts if _unread(scenario, model, tokens) is None}, reverse=True
    )


def searched_largest(
    scenario: Scenario, model: Model, search: Callable[[Scenario, bool], Done]
) -> tuple[Done, dict[int, Reason]]:
    """The search at the largest of the windows that anything serves, and why nothing serves the others. The second
    argument of `search` is whether the nearest question is to be sought where nothing is found: at the smallest.

    Raises: NoAnswerError: nothing serves any that the model reads. InfeasibleError: it reads none.
    """
    unread = {tokens: _unread(scenario, model, tokens) for tokens in scenario.max_contexts}
    refused: dict[int, Reason] = {tokens: reason for tokens, reason in unread.items() if reason is not None}
    readable = readable_windows(scenario, model)
    fix = ""
    for tokens in readable:
        try:
            return search(tier_scenario(scenario, tokens), tokens == readable[-1]), refused
        except InfeasibleError as error:
            refused[tokens] = NothingCarries(error.why or error.what)
            fix = error.fix
    kind = NoAnswerError if readable else InfeasibleError
    raise kind(
        f"nothing serves {model.id} with a context of {min(scenario.max_contexts):,} tokens or more",
        why="; ".join(dict.fromkeys(map(str, refused.values()))),
        fix=fix or _nearest(scenario, model),
    )


def _unread(scenario: Scenario, model: Model, tokens: int) -> Reason | None:
    """Return why the model cannot read requests of `tokens` tokens, or that the load has longer ones; None if
    neither holds."""
    most = context_window(model)
    mean = scenario.traffic.tokens_per_request
    if most and tokens > most:
        return WindowTooSmall(model.id, most)
    return RequestsTooLong(mean) if mean > tokens else None


def _nearest(scenario: Scenario, model: Model) -> str:
    most = context_window(model)
    mean = scenario.traffic.tokens_per_request
    if most and min(scenario.max_contexts) > most:
        return f"--max-context {most} or less, or a model that reads more"
    if max(scenario.max_contexts) < mean:
        return f"--max-context {mean} or more, or shorter --input-tokens"
    return "looser objectives and limits"


def context_tiers(
    scenario: Scenario,
    model: Model,
    refused: dict[int, Reason],
    best: Planned,
    plan: Callable[[Scenario], Planned | None],
) -> tuple[Rung, ...]:
    """Each window of the scenario, smallest first, with what to take for it, or why there is nothing.

    `best` is taken for the largest that is not refused; a smaller one gets what `plan` finds for it alone, unless the
    servers of the next larger window cost less: they accept its requests as they are.
    """
    found = list[Rung]()
    held: Scenario | None = None
    for tokens in sorted(set(scenario.max_contexts), reverse=True):
        if tokens in refused:
            found.append(Rung(None, refused[tokens], max_context_tokens=tokens))
            continue
        asked = tier_scenario(scenario, tokens)
        alone = plan(asked) if held is not None else best
        if held is None or (alone is not None and alone.found.purchase.cost <= best.found.purchase.cost):
            best = alone or best
            held = asked
        found.append(_tier(best, held, model, tokens))
    return tuple(reversed(found))


def _tier(plan: Planned, held: Scenario, model: Model, tokens: int) -> Rung:
    """Return what a window of `tokens` costs on servers that are planned for the scenario `held`."""
    replica = plan.found.replica
    prompt = FixedLengths(tokens - (tier_scenario(held, tokens).traffic.max_output_tokens or 1), 1)
    alone = simulate(replica.surface, replica.policy, Workload(ClosedLoop(1), prompt, 1), seed=held.seed)
    at_once = replica.memory.kv_capacity_tokens // tokens * plan.found.purchase.num_replicas
    native = context_limits(model).native
    return Rung(
        option_of(1, plan, held),
        max_context_tokens=tokens,
        needs_rope_scaling=bool(native and tokens > native),
        requests_at_once=int(at_once),
        first_token_s=alone.ttft.mean_s,
    )
