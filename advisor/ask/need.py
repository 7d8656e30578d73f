"""Questions that start from a use case or from people: turned into a load and objectives, with what was assumed."""

import re
from dataclasses import replace

from advisor.ask.measures import parse_count, parse_rate
from advisor.ask.options import Audience, LoadOptions, ObjectiveOptions
from advisor.catalog import profiles
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import DAY_S
from advisor.catalog.use_cases import UseCase, get_use_case

_USUAL_CASE = "chatbot"
_LOADS = ("rate", "concurrency", "trace")


def stated_need(
    need: Audience, load: LoadOptions, objectives: ObjectiveOptions
) -> tuple[LoadOptions, ObjectiveOptions, tuple[str, ...]]:
    """Return load and objectives of a use case and of a number of users, and notes with the sources of both.

    What is typed counts before the use case.

    Raises: UnknownNameError: no such use case. AdvisorError: users are given together with a load, or nothing says how
        many requests a user sends.
    """
    if need.use_case is None and need.users is None and need.requests_per_user is None:
        return load, objectives, ()
    name, case = get_use_case(need.use_case or _USUAL_CASE)
    notes = []
    if need.use_case is not None:
        load, objectives = _as_case(case, load, objectives)
        lengths = case.lengths_source or profiles.get(case.profile).source
        notes.append(f"use case {name}: lengths of {lengths}; objectives of {case.objectives_source}")
    if need.users is not None:
        rate, words = _rate_of(need, name, case, load)
        load = replace(load, rate=rate)
        notes.append(words)
    elif need.requests_per_user is not None:
        raise AdvisorError("--requests-per-user needs users", fix="--users 1000")
    return load, objectives, tuple(notes)


def peak_of_users(need: Audience, load: LoadOptions) -> float:
    """Return the requests of the busiest minute over the mean of a day, by which the rate of users is larger than their
    mean; 1 without users, or where nothing published says it.

    Raises: UnknownNameError: no such use case.
    """
    if need.users is None:
        return 1.0
    return _peak_to_mean(get_use_case(need.use_case or _USUAL_CASE)[1], load)


def _peak_to_mean(case: UseCase, load: LoadOptions) -> float:
    return profiles.get(load.profile or case.profile).peak_to_mean or 1.0


def _per_second(text: str) -> float:
    """Return the requests of a user per second [1/s]; a number without a period is refused, as a day and an hour are
    24 times apart."""
    if re.fullmatch(r"[\d.,_\s]+[kKmM]?/?", text.strip()):
        number = text.strip().rstrip("/")
        raise AdvisorError(
            f"--requests-per-user {text}: no period",
            why="a user may send that many an hour or a day",
            fix=f"--requests-per-user {number or 10}/h, or {number or 10}/day",
        )
    return parse_rate(text, "--requests-per-user")


def _as_case(
    case: UseCase, load: LoadOptions, objectives: ObjectiveOptions
) -> tuple[LoadOptions, ObjectiveOptions]:
    has_lengths = load.trace is not None or load.profile is not None
    if not has_lengths:
        load = replace(
            load,
            profile=case.profile,
            input_tokens=load.input_tokens or case.mean_input_tokens,
            output_tokens=load.output_tokens or case.mean_output_tokens,
        )
    first = (objectives.ttft_p99, objectives.ttft_p95, objectives.ttft_p50, objectives.e2e_p99)
    token = (objectives.tpot_p99, objectives.tpot_p95, objectives.tpot_p50, objectives.itl_p99)
    if not any(first):
        objectives = replace(objectives, ttft_p99=case.ttft_p99)
    if not any(token):
        objectives = replace(objectives, tpot_p99=case.tpot_p99)
    return load, objectives


def _rate_of(need: Audience, name: str, case: UseCase, load: LoadOptions) -> tuple[str, str]:
    """Return the rate of all users in the busiest minute, as it is typed, and how it comes about."""
    if given := [each for each in _LOADS if getattr(load, each) is not None]:
        raise AdvisorError(
            f"--users and --{given[0]} exclude each other",
            why="users and what each sends say how many requests come",
            fix="give one of them",
        )
    users = parse_count(need.users or "", "--users")
    if users < 1:
        raise AdvisorError(f"--users {need.users}: at least one", fix="--users 1000")
    if need.requests_per_user is not None:
        per_user_s = _per_second(need.requests_per_user)
        source = f"{need.requests_per_user} as typed"
    elif case.requests_per_user_day is not None:
        per_user_s = case.requests_per_user_day / DAY_S
        source = f"{case.requests_per_user_day:g} a day ({case.requests_source})"
    else:
        raise AdvisorError(
            f"nothing published says how many requests a user of {name} sends",
            why="it decides the load, and is not guessed",
            fix="--requests-per-user 20/h",
        )
    peak = _peak_to_mean(case, load)
    rate = users * per_user_s * peak
    busiest = f"the busiest minute has {peak:g} times the mean" if peak > 1.0 else "no peak is known"
    return f"{rate:.3g}/s", f"{users:,.0f} users, each {source}; {busiest}: {rate:.3g} requests/s"
