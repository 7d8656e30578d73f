"""The load of a fleet file, drawn."""

from pathlib import Path

import numpy as np

from advisor.ask.deployment import DEFAULT_REQUESTS
from advisor.catalog import profiles
from advisor.catalog.errors import InputFileError
from advisor.catalog.schema import Model
from advisor.commands.simulate_fleet.fleet_file import MOST_REQUESTS, LoadTable
from advisor.simulator.serving import (
    Arrivals,
    ClosedLoop,
    FixedLengths,
    Gamma,
    Lengths,
    LognormalLengths,
    Poisson,
    Slo,
    Workload,
)
from advisor.simulator.serving.arrivals import VaryingRate, bursts, diurnal
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.serving.load import FleetLoad, Tenant, draw_load, merge_loads
from advisor.simulator.serving.sessions import Sessions, draw_sessions
from advisor.simulator.serving.trace_files import read_trace
from advisor.simulator.serving.trace_replay import fit_trace, replay, synthetic

_NO_SPREAD = 1e-3
"""A lognormal needs a spread; this one stays within a token."""


def load_of_file(tables: tuple[LoadTable, ...], seed: int, folder: Path, model: Model) -> FleetLoad:
    """Return the requests of all tenants; paths of traces count from the fleet file's folder.

    Raises: AdvisorError and its kinds: parts of a load do not go together, or a trace is malformed.
    """
    names = [table.name for table in tables]
    if len(set(names)) < len(names):
        raise InputFileError(
            f"load: two entries have the same name: {', '.join(names)}", fix="name each tenant once"
        )
    return merge_loads([_tenant_load(table, _seed(seed, k), folder, model) for k, table in enumerate(tables)])


def _seed(seed: int, number: int) -> int:
    """Return the seed of a tenant's own stream; the first tenant has that of the command."""
    return seed if not number else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _tenant_load(table: LoadTable, seed: int, folder: Path, model: Model) -> FleetLoad:
    promised = (table.ttft, table.tpot, table.e2e)
    slo = Slo(*promised) if any(limit is not None for limit in promised) else None
    tenant = Tenant(name=table.name, slo=slo, priority=table.priority)
    if table.trace is not None:
        path = folder / table.trace
        trace = read_trace(path).sped_up(table.trace_speed)
        trace.check_fits(model.max_context_tokens, model.id, path)
        if table.fitted:
            count = table.requests or len(trace.pairs)
            return draw_load(synthetic(trace, fit_trace(trace), count), seed, tenant)
        return draw_load(replay(trace, table.requests), seed, tenant)
    prefixes = _prefixes(table)
    lengths = _lengths(table, prefixes)
    if table.sessions is not None:
        said = table.sessions
        return draw_sessions(
            Sessions(
                arrivals=_arrivals(table),
                lengths=lengths,
                num_sessions=_count(table),
                mean_turns=said.turns,
                think_s=said.think,
                system_tokens=said.system_tokens,
                branches=said.branches,
                max_context_tokens=said.max_context,
            ),
            seed,
            tenant,
        )
    return draw_load(Workload(_arrivals(table), lengths, _count(table), prefixes), seed, tenant)


def _arrivals(table: LoadTable) -> Poisson | Gamma | VaryingRate | ClosedLoop:
    if table.day is not None:
        day = table.day
        return diurnal(day.mean, day.peak_to_mean, period_s=day.period, cv=table.burstiness)
    if table.bursts is not None:
        burst = table.bursts
        return bursts(
            burst.base, burst.burst, every_s=burst.every, lasting_s=burst.lasting, cv=table.burstiness
        )
    if table.rate is None:
        assert table.sessions is not None
        assert table.sessions.users is not None
        return ClosedLoop(table.sessions.users, "staggered", table.sessions.think or 1.0)
    return Poisson(table.rate) if table.burstiness == 1.0 else Gamma(table.rate, table.burstiness)


def _count(table: LoadTable) -> int:
    """Return the number of requests, or of sessions."""
    if table.duration is not None:
        found = max(1, round(_mean_rate(_arrivals(table), table) * table.duration))
        if found > MOST_REQUESTS:
            raise InputFileError(
                f"load {table.name}: {found:,} requests in that time",
                why=f"at most {MOST_REQUESTS:,} are simulated",
                fix=f"duration = {table.duration * MOST_REQUESTS / found:.0f}, or less",
            )
        return found
    return table.requests or DEFAULT_REQUESTS


def _mean_rate(arrivals: Arrivals, table: LoadTable) -> float:
    if isinstance(arrivals, VaryingRate):
        return arrivals.mean_rate_per_s
    if isinstance(arrivals, Poisson | Gamma):
        return arrivals.rate_per_s
    raise InputFileError(
        f"load {table.name}: duration: sessions of users have no rate",
        why="how many they begin depends on how fast they are answered",
        fix="requests = the number of sessions",
    )


def _prefixes(table: LoadTable) -> SharedPrefixes | None:
    if table.shared_prefix_tokens is None:
        return None
    if table.sessions is not None:
        raise InputFileError(
            f"load {table.name}: sessions share their system prompt",
            fix="sessions.system_tokens instead of shared_prefix_tokens",
        )
    return SharedPrefixes(table.shared_prefix_tokens, table.shared_prefixes)


def _lengths(table: LoadTable, prefixes: SharedPrefixes | None) -> Lengths:
    """Return lengths around the means, which count a shared beginning."""
    profile = profiles.get(table.profile or "chat")
    inputs = table.input_tokens or profile.mean_input_tokens
    most = profile.longest_prompt(inputs) if table.spread is None else None
    outputs = table.output_tokens or profile.mean_output_tokens
    if prefixes is not None:
        inputs -= prefixes.num_tokens
        most = None if most is None else most - prefixes.num_tokens
        if inputs < 1:
            raise InputFileError(
                f"load {table.name}: shared_prefix_tokens leaves nothing of a prompt of "
                f"{inputs + prefixes.num_tokens} tokens",
                fix="a shorter prefix, or more input_tokens",
            )
    sigma = profile.input_sigma if table.spread is None else table.spread
    output_sigma = profile.output_sigma if table.spread is None else table.spread
    if table.output_spread is not None:
        output_sigma = table.output_spread
    if not sigma and not output_sigma:
        return FixedLengths(inputs, outputs)
    return LognormalLengths(
        inputs,
        outputs,
        sigma=max(sigma, _NO_SPREAD),
        output_sigma=max(output_sigma, _NO_SPREAD),
        max_input_tokens=most,
    )
