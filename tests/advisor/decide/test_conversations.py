"""Conversations as a load: prompts that hold what was said, rates, reuse that runs find, routers, refusals."""

import datetime
from dataclasses import replace

import numpy as np
import pytest

from advisor.ask.options import LoadOptions
from advisor.ask.traffic import traffic_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.decide.conversations import _Talks, conversations_at
from advisor.decide.load_runs import lengths_of, run_at
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving import Poisson
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.fleet import Fleet, Pool
from advisor.simulator.serving.fleet_simulation import simulate_fleet
from advisor.simulator.serving.sessions import Sessions, draw_sessions

DAY = datetime.date(2026, 11, 20)
TALK = LoadOptions(rate="5", input_tokens=300, output_tokens=200, sessions=6.0)


def test_prompts_hold_what_was_said() -> None:
    traffic = traffic_of(TALK)
    talk = traffic.conversations
    assert talk is not None
    # Of geometric turns a request has (mean - 1) before it on average, each with 500 tokens.
    assert traffic.reused_input_tokens == pytest.approx(5 * 500, rel=0.1)
    assert traffic.mean_input_tokens == pytest.approx(traffic.reused_input_tokens + 300, rel=0.03)
    work = conversations_at(talk, lengths_of(talk.turn), 100_000, 5.0, 2000, 3)
    contents = work.contents
    assert isinstance(contents, Contents)
    assert contents.kept
    assert work.num_requests == 2000
    times = np.array(work.arrivals.times_s)  # type: ignore[union-attr]
    assert times[-1] == pytest.approx(400.0)
    ends = contents.tree.ends
    parents = contents.tree.parents
    kept = set(contents.kept)
    said = dict[int, int]()
    reused = 0
    for place, (prompt, answer) in enumerate(work.lengths.pairs):  # type: ignore[union-attr]
        node = contents.prompts[place]
        before = said.get(node, ends[parents[node]])
        assert parents[node] == 0 or parents[node] in kept
        assert before < prompt < prompt + answer <= ends[node]
        reused += before
        said[contents.answers[place]] = prompt + answer
    assert all(ends[node] == tokens for node, tokens in said.items())
    assert reused / 2000 == pytest.approx(traffic.reused_input_tokens, rel=0.15)


def test_how_many_conversations_are_asked_for_changes_none_of_them() -> None:
    talk = traffic_of(TALK).conversations
    assert talk is not None
    lengths = lengths_of(talk.turn)
    few = _Talks(talk, lengths, 4000, (1, 0))
    many = _Talks(talk, lengths, 4000, (1, 0))
    many.first(5000)
    for mine, theirs in zip(few.first(40).columns, many.first(40).columns, strict=True):
        assert np.array_equal(mine, theirs)
    drawn = many.first(5000)
    assert len(np.unique(drawn.talk)) == 5000
    follows = np.diff(drawn.talk) == 0
    assert np.array_equal(drawn.before[1:][follows], drawn.whole[:-1][follows])
    assert drawn.whole[1:][follows].max() <= 4000
    # Of geometric turns, as far as the window lets them: gaps are exponential around theirs.
    assert np.diff(drawn.at_s)[follows].mean() == pytest.approx(talk.gap_s, rel=0.03)


def test_a_system_prompt_comes_first_and_windows_end_conversations() -> None:
    alone = traffic_of(TALK)
    common = traffic_of(replace(TALK, input_tokens=1300, shared_prefix_tokens=1000))
    assert common.mean_input_tokens == pytest.approx(alone.mean_input_tokens + 1000, rel=0.02)
    talk = alone.conversations
    assert talk is not None
    work = conversations_at(talk, lengths_of(talk.turn), 3000, 5.0, 1000, 0)
    assert max(sum(pair) for pair in work.lengths.pairs) <= 3000 + 2000  # type: ignore[union-attr]


def test_a_cache_finds_what_it_can_hold() -> None:
    traffic = traffic_of(TALK)
    replica = model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"), mean_input_tokens=2800, mean_output_tokens=200
    )
    held = run_at(replica, traffic, 2.0, 1200, 0)
    crowded = run_at(replica, traffic, 30.0, 1200, 0)
    endless = traffic.reused_input_tokens / traffic.mean_input_tokens
    assert held.prefix_hit_fraction == pytest.approx(endless, abs=0.06)
    assert (crowded.prefix_hit_fraction or 0.0) < 0.8 * endless


@pytest.mark.slow
def test_reuse_rents_less_and_holds_where_conversations_stay() -> None:
    limits = Constraints(accelerators=("l40s",), engines=("vllm",), precisions=("fp8",))
    scenario = Scenario(model="llama-3.1-8b", as_of=DAY, traffic=traffic_of(TALK), constraints=limits, top=1)
    found, without = (
        recommend(scenario.model_copy(update={"levers": (name,)})) for name in ("prefix", "none")
    )
    option = found.options[0]
    assert option.bill.usd_per_hour < without.options[0].bill.usd_per_hour
    assert option.levers["sticky_router"]
    assert not without.options[0].levers["sticky_router"]
    assert "--no-enable-prefix-caching" in without.options[0].started.argv
    assert (option.layout.num_replicas > 1) == any("stay with its replica" in note for note in found.notes)
    deployment = named_deployment(
        "llama-3.1-8b", "l40s", tensor_parallel=option.layout.tensor_parallel, weight_dtype="fp8"
    )
    replica = model_replica(deployment, mean_input_tokens=2800, mean_output_tokens=200)
    talk = Sessions(
        arrivals=Poisson(5.0 / 6.0),
        lengths=lengths_of(scenario.traffic.conversations.turn),  # type: ignore[union-attr]
        num_sessions=900,
        mean_turns=6.0,
        think_s=55.0,
    )
    pool = Pool(
        name="l40s", surface=replica.surface, policy=replica.policy, num_replicas=option.layout.num_replicas
    )
    load = draw_sessions(talk, 5)
    run = simulate_fleet(Fleet(pools=(pool,), router="session_affinity"), load, records=True)
    rows = run.records
    assert rows is not None
    steady = (rows.arrived_ps > 400 * PICOSECONDS_PER_S) & (rows.arrived_ps < 1000 * PICOSECONDS_PER_S)
    ttft_s = (rows.first_token_ps - rows.arrived_ps)[steady] / PICOSECONDS_PER_S
    assert np.percentile(ttft_s, 99) <= scenario.objectives.largest_ttft_s


def test_an_engine_without_a_router_for_them_counts_no_reuse() -> None:
    limits = Constraints(accelerators=("h100-sxm",), engines=("tensorrt-llm",))
    asked = Scenario(model="llama-3.1-8b", as_of=DAY, traffic=traffic_of(TALK), constraints=limits, top=1)
    found = recommend(asked.model_copy(update={"screened_only": True}))
    assert not found.options[0].levers["sticky_router"]
    assert not found.options[0].levers["prefix_caching"]


def test_conversations_that_mean_nothing_are_refused() -> None:
    for load, words in (
        (LoadOptions(turn_gap="5s"), "needs conversations"),
        (LoadOptions(sessions=3.0, concurrency=4), "--concurrency exclude"),
        (LoadOptions(sessions=3.0, shared_prefix_tokens=100, shared_prefixes=3), "--shared-prefixes exclude"),
        (LoadOptions(sessions=3.0, turn_gap="soon"), "--turn-gap"),
    ):
        with pytest.raises(AdvisorError, match=words) as refused:
            traffic_of(load)
        assert refused.value.fix
