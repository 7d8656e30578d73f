"""Kinds of traffic against the traces that they cite."""

import csv
import json
import math
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.profiles import all_profiles, get

FILES = {
    "chat": ("azure_2023_conv.csv", "ContextTokens", "GeneratedTokens"),
    "code": ("azure_2023_code.csv", "ContextTokens", "GeneratedTokens"),
    "rag": ("lengths/mlperf_llama3-1-405b.csv", "input_length", "output_length"),
    "batch": ("lengths/mlperf_llama3-1-8b-datacenter.csv", "input_length", "output_length"),
    "reasoning": ("lengths/mlperf_deepseek-r1.csv", "input_length", "output_length"),
    "agent": ("mooncake_conversation_first4000.jsonl", "input_length", "output_length"),
}


def percentile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def rows_of(file: Path) -> list[dict[str, str]]:
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text().splitlines()]
    return list(csv.DictReader(file.read_text().splitlines()))


@pytest.mark.parametrize("name", sorted(FILES))
def test_lengths_are_those_of_the_cited_set(name: str, shared_data: Path) -> None:
    file, inputs, outputs = FILES[name]
    rows = rows_of(shared_data / "traces" / file)
    profile = get(name)
    for column, mean, median, p99 in (
        (inputs, profile.mean_input_tokens, profile.median_input_tokens, profile.p99_input_tokens),
        (outputs, profile.mean_output_tokens, profile.median_output_tokens, profile.p99_output_tokens),
    ):
        values = [float(row[column]) for row in rows]
        assert sum(values) / len(values) == pytest.approx(mean, abs=0.6)
        assert percentile(values, 0.5) == pytest.approx(median, abs=0.6)
        assert percentile(values, 0.99) == pytest.approx(p99, abs=0.6)
        if column == inputs and profile.max_input_tokens is not None:
            assert max(values) == profile.max_input_tokens


def test_the_longest_prompt_of_a_set_ends_the_tail_where_it_is_heavy() -> None:
    for name, profile in all_profiles().items():
        assert (profile.max_input_tokens is not None) == (profile.input_sigma > 1.0), name
    agent = get("agent")
    assert agent.longest_prompt(agent.mean_input_tokens) == 123192
    assert agent.longest_prompt(2 * agent.mean_input_tokens) == 2 * 123192
    assert get("chat").longest_prompt(1000) is None


@pytest.mark.parametrize("name", ["chat", "code"])
def test_burstiness_is_that_of_the_cited_trace(name: str, shared_data: Path) -> None:
    rows = rows_of(shared_data / "traces" / FILES[name][0])
    profile = get(name)
    times = sorted(datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert spread / mean == pytest.approx(profile.interarrival_cv, rel=0.02)
    whole = int((times[-1] - times[0]) // 60)
    minutes = [0] * (whole + 1)
    for instant in times:
        minutes[int((instant - times[0]) // 60)] += 1
    peak = max(minutes[:whole]) / (sum(minutes[:whole]) / whole)  # the last minute is not whole
    assert peak == pytest.approx(profile.peak_to_mean, rel=0.02)


def test_repeated_blocks_and_turns_are_those_of_the_cited_trace(shared_data: Path) -> None:
    rows = rows_of(shared_data / "traces" / FILES["agent"][0])
    profile = get("agent")
    seen: set[int] = set()
    hits = total = 0
    ends: dict[int, tuple[int, float]] = {}
    turns: dict[int, int] = {}
    gaps = []
    for row in rows:
        blocks: list[int] = row["hash_ids"]  # type: ignore[assignment]
        hits += sum(block in seen for block in blocks)
        total += len(blocks)
        seen.update(blocks)
        # All share the first two blocks; whoever begins with all whole blocks of another request continues it.
        before = next((ends[block] for block in reversed(blocks[2:]) if block in ends), None)
        session = before[0] if before else len(turns)
        turns[session] = turns.get(session, 0) + 1
        if before:
            gaps.append((float(row["timestamp"]) - before[1]) / 1000)
        ends[blocks[-2] if len(blocks) > 1 else blocks[0]] = (session, float(row["timestamp"]))
    assert hits / total == pytest.approx(profile.prefix_share_fraction, abs=0.001)
    longer = [count for count in turns.values() if count > 1]
    assert sum(longer) / len(longer) == pytest.approx(profile.session_turns, abs=0.1)
    assert percentile(gaps, 0.5) == pytest.approx(profile.think_time_s, rel=0.03)


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_spread_gives_mean_and_99th_percentile(name: str) -> None:
    profile = get(name)
    for mean, sigma, p99 in (
        (profile.mean_input_tokens, profile.input_sigma, profile.p99_input_tokens),
        (profile.mean_output_tokens, profile.output_sigma, profile.p99_output_tokens),
    ):
        # Both figures are rounded; a hundredth of sigma moves the tail of a wide distribution by a percent or two.
        assert mean * math.exp(2.3263 * sigma - sigma**2 / 2) == pytest.approx(p99, rel=0.03)


def test_every_kind_has_its_source() -> None:
    for profile in all_profiles().values():
        assert profile.source
        assert bool(profile.arrivals_source) == any(
            value is not None
            for value in (profile.interarrival_cv, profile.prefix_share_fraction, profile.session_turns)
        )
        assert profile.median_input_tokens < profile.p99_input_tokens
    with pytest.raises(UnknownNameError):
        get("chatt")
