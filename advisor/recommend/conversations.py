"""Conversations as a load: prompts that send back all that was said before, at their own instants, of one replica."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from advisor.recommend.scenario import Conversations, Traffic
from advisor.simulator.serving import EmpiricalLengths, Workload
from advisor.simulator.serving.arrivals import TraceArrivals
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.serving.lengths import Lengths

_LEAD_GAPS = 5.0
"""Times a whole mean conversation that requests came before those that are replayed."""
_RECENT = 2000
"""Requests before those that are replayed, of which also conversations that have ended are in the cache."""
_SAMPLED = 4000
"""Conversations from which mean lengths are known."""
_TAIL = 99.9
"""Percentile of the longest prompt that a replica must hold."""
_ANY = 10_000_000
"""Tokens of a window where none is known."""

Turn = tuple[float, int, int]
"""Seconds after the beginning of its conversation, new tokens, tokens of its answer."""


def _talks(
    talk: Conversations, lengths: Lengths, most_tokens: int, seed: tuple[int, int]
) -> Iterator[list[Turn]]:
    """Conversations without end: turns are geometric around their mean, gaps exponential around theirs; one ends before
    a turn that would exceed the window.

    Source: own definition; simulator.serving.sessions, whose gaps begin at the answer.
    """
    rngs = [np.random.default_rng([*seed, stream]) for stream in range(4)]
    pairs = (
        pair
        for inputs, outputs in lengths.chunks(rngs[0], rngs[1])
        for pair in zip(inputs.tolist(), outputs.tolist(), strict=True)
    )
    while True:
        turns, at_s, held = list[Turn](), 0.0, talk.common_tokens
        for _ in range(int(rngs[2].geometric(1.0 / talk.mean_turns))):
            new, output = next(pairs)
            if turns and held + new + output > most_tokens:
                break
            turns.append((at_s, new, output))
            held += new + output
            at_s += talk.gap_s * float(rngs[3].standard_exponential())
        yield turns


def in_conversations(talk: Conversations, lengths: Lengths) -> Traffic:
    """The traffic of conversations whose turns have such lengths: whole prompts, and what of them an endless cache
    holds from the turn before.
    """
    prompts, answers, reused = list[int](), list[int](), list[int]()
    for turns in _drawn(talk, lengths, _ANY, _SAMPLED, (0, 0)):
        held = talk.common_tokens
        for _, new, output in turns:
            reused.append(held)
            prompts.append(held + new)
            answers.append(output)
            held += new + output
    changes: dict[str, object] = {
        "mean_input_tokens": max(1, round(float(np.mean(prompts)))),
        "input_sigma": float(np.log(prompts).std()),
        "max_input_tokens": int(np.percentile(prompts, _TAIL)),
        "mean_output_tokens": max(1, round(float(np.mean(answers)))),
        "reused_input_tokens": float(np.mean(reused)),
        "conversations": talk,
    }
    return talk.turn.model_copy(update=changes)


@lru_cache(maxsize=64)
def _drawn(
    talk: Conversations, lengths: Lengths, most_tokens: int, count: int, seed: tuple[int, int]
) -> tuple[tuple[Turn, ...], ...]:
    talks = _talks(talk, lengths, most_tokens, seed)
    return tuple(tuple(next(talks)) for _ in range(count))


@lru_cache(maxsize=16)
def conversations_at(
    talk: Conversations, lengths: Lengths, most_tokens: int, rate_per_s: float, num_requests: int, seed: int
) -> Workload:
    """What one replica sees of conversations that stay with it, at a rate of requests [1/s].

    Conversations begin as a Poisson process that has lasted for long: those that began before send the turns that are
    left, and what they have said is in the cache, as far as it holds.
    """
    lead_s, recent_s = _LEAD_GAPS * talk.mean_turns * talk.gap_s, _RECENT / rate_per_s
    begin_per_s = rate_per_s / _mean_turns(talk, lengths, most_tokens)
    tree = ContentTree()
    system = tree.add(ROOT, talk.common_tokens) if talk.common_tokens else ROOT
    requests, earlier = list[tuple[float, int, int, int]](), list[tuple[float, int]]()
    for sign, reach_s in ((-1.0, lead_s), (1.0, 1.2 * num_requests / rate_per_s + talk.gap_s)):
        count = max(8, round(reach_s * begin_per_s))
        gaps = np.random.default_rng([seed, int(sign > 0), 9]).standard_exponential(count)
        starts = sign * np.cumsum(gaps) / begin_per_s
        talks = _drawn(talk, lengths, most_tokens, 1 << (count - 1).bit_length(), (seed, int(sign > 0)))
        for start, turns in zip(starts.tolist(), talks, strict=False):
            if start + turns[-1][0] < -recent_s:
                continue  # what they said has left the cache, or is the first to leave it
            node, last_s = system, 0.0
            for at_s, new, output in turns:
                if start + at_s < 0.0:
                    node, last_s = tree.add(node, new + output), start + at_s
                    continue
                if last_s < 0.0:
                    earlier.append((last_s, node))
                    last_s = 0.0
                prompt = tree.add(node, new)
                node = tree.add(prompt, output)
                requests.append((start + at_s, prompt, node, output))
            if last_s < 0.0:
                earlier.append((last_s, node))
    requests.sort()
    chosen = requests[:num_requests]
    contents = Contents(
        tree,
        [prompt for _, prompt, _, _ in chosen],
        {place: answer for place, (_, _, answer, _) in enumerate(chosen)},
        [node for _, node in sorted(earlier)],
    )
    begin_s, span_s = chosen[0][0], max(chosen[-1][0] - chosen[0][0], 1e-9)
    stretch = len(chosen) / rate_per_s / span_s  # few conversations come faster or slower than many
    pairs = [(tree.ends[prompt], output) for _, prompt, _, output in chosen]
    arrivals = TraceArrivals([(at_s - begin_s) * stretch for at_s, _, _, _ in chosen])
    return Workload(arrivals, EmpiricalLengths(pairs, in_order=True), len(pairs), contents)


@lru_cache(maxsize=16)
def _mean_turns(talk: Conversations, lengths: Lengths, most_tokens: int) -> float:
    talks = _drawn(talk, lengths, most_tokens, _SAMPLED, (0, 0))
    return sum(map(len, talks)) / len(talks)
