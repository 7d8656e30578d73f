"""Conversations as a load: prompts that send back all that was said before, at their own instants, of one replica."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.decide.scenario import Conversations, Traffic
from advisor.simulator.serving import EmpiricalLengths, Workload
from advisor.simulator.serving.arrivals import TraceArrivals
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.serving.lengths import Lengths

_WARM_UP_CONVERSATIONS = 7.0
"""Warm-up before the replayed requests, in mean conversation durations; one conversation in a thousand is longer, a
tenth of the share that a p99 allows."""
_RECENT = 2000
"""Requests before those that are replayed, of which also conversations that have ended are in the cache."""
_SAMPLED = 4000
"""Conversations from which mean lengths are known."""
_TAIL = 99.9
"""Percentile of the longest prompt that a replica must hold."""
_ANY = 10_000_000
"""Tokens of a window where none is known."""

_CHUNK = 1024
"""Conversations that are drawn at once: fixes the order in which the generators are used."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Turns of conversations, one after the other."""

    talk: NDArray[np.int64]
    """Number of the conversation."""
    at_s: NDArray[np.float64]
    """Since its beginning."""
    before: NDArray[np.int64]
    """Tokens that were said before."""
    prompt: NDArray[np.int64]
    """Tokens of the prompt: those said before and the new ones."""
    whole: NDArray[np.int64]
    """Tokens of the prompt and its output."""

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.talk, self.at_s, self.before, self.prompt, self.whole

    @property
    def num_conversations(self) -> int:
        return int(self.talk[-1]) + 1

    def first(self, count: int) -> "_Drawn":
        """Return the turns of the first `count` conversations."""
        end = int(np.searchsorted(self.talk, count))
        return _Drawn(*(column[:end] for column in self.columns))


class _Talks:
    """Conversations without end, drawn as far as they were needed: turns are geometric around their mean, gaps
    exponential around theirs; one ends before a turn that would exceed the window.

    Source: own definition; simulator.serving.sessions, whose gaps begin at the answer.
    """

    def __init__(
        self, talk: Conversations, lengths: Lengths, most_tokens: int, seed: tuple[int, int]
    ) -> None:
        self.conversations = talk
        self.most_tokens = most_tokens
        inputs, outputs, self.turns, self.gaps = (np.random.default_rng([*seed, each]) for each in range(4))
        self.lengths = lengths.chunks(inputs, outputs)
        self.unused = [np.empty((2, 0), np.int64)]
        """Lengths of turns that were drawn and belong to no conversation yet."""
        self.drawn = self._more(0)

    def first(self, count: int) -> _Drawn:
        """Return the first `count` conversations."""
        known = self.drawn.num_conversations
        parts = [self.drawn]
        while known < count:
            parts.append(self._more(known))
            known += _CHUNK
        if len(parts) > 1:
            columns = zip(*(part.columns for part in parts), strict=True)
            self.drawn = _Drawn(*(np.concatenate(column) for column in columns))
        return self.drawn.first(count)

    def _more(self, known: int) -> _Drawn:
        """Draw further conversations, of which `known` are known already."""
        counts = self.turns.geometric(1.0 / self.conversations.mean_turns, _CHUNK)
        talk = np.repeat(np.arange(_CHUNK), counts)
        firsts = np.cumsum(counts) - counts
        new, outputs = self._pairs(len(talk))
        gaps_s = self.conversations.gap_s * self.gaps.standard_exponential(len(talk))
        said = np.cumsum(new + outputs)
        at_s = np.cumsum(gaps_s) - gaps_s
        earlier = self.conversations.common_tokens - (said - new - outputs)[firsts]
        whole = said + earlier[talk]
        kept = whole <= self.most_tokens
        kept[firsts] = True
        columns = at_s - at_s[firsts][talk], whole - new - outputs, whole - outputs, whole
        return _Drawn(known + talk[kept], *(column[kept] for column in columns))

    def _pairs(self, count: int) -> NDArray[np.int64]:
        """Tokens of the next prompts, and of their answers."""
        known = sum(part.shape[1] for part in self.unused)
        while known < count:
            self.unused.append(np.stack(next(self.lengths)))
            known += self.unused[-1].shape[1]
        pairs = np.concatenate(self.unused, axis=1)
        self.unused = [pairs[:, count:]]
        return pairs[:, :count]


def in_conversations(talk: Conversations, lengths: Lengths) -> Traffic:
    """The traffic of conversations whose turns have such lengths: whole prompts, and what of them an endless cache
    holds from the turn before.
    """
    drawn = _talks(talk, lengths, _ANY, (0, 0)).first(_SAMPLED)
    prompts = drawn.prompt
    changes: dict[str, object] = {
        "mean_input_tokens": max(1, round(float(np.mean(prompts)))),
        "input_sigma": float(np.log(prompts).std()),
        "max_input_tokens": int(np.percentile(prompts, _TAIL)),
        "mean_output_tokens": max(1, round(float(np.mean(drawn.whole - prompts)))),
        "reused_input_tokens": float(np.mean(drawn.before)),
        "conversations": talk,
    }
    return talk.turn.model_copy(update=changes)


@lru_cache(maxsize=64)
def _talks(talk: Conversations, lengths: Lengths, most_tokens: int, seed: tuple[int, int]) -> _Talks:
    return _Talks(talk, lengths, most_tokens, seed)


@lru_cache(maxsize=16)
def conversations_at(
    talk: Conversations, lengths: Lengths, most_tokens: int, rate_per_s: float, num_requests: int, seed: int
) -> Workload:
    """Return the requests that one replica receives from conversations that stay with it, at a request rate [1/s].

    Conversations begin as a Poisson process that has lasted for long: those that began before send the turns that are
    left, and what they have said is in the cache, as far as it holds.
    """
    lead_s = _WARM_UP_CONVERSATIONS * talk.mean_turns * talk.gap_s
    recent_s = _RECENT / rate_per_s
    begin_per_s = rate_per_s / _mean_turns(talk, lengths, most_tokens)
    found = list[tuple[_Drawn, NDArray[np.float64]]]()
    num_before = 0
    for sign, reach_s in ((-1.0, lead_s), (1.0, 1.2 * num_requests / rate_per_s + talk.gap_s)):
        count = max(8, round(reach_s * begin_per_s))
        gaps = np.random.default_rng([seed, int(sign > 0), 9]).standard_exponential(count)
        starts_s = sign * np.cumsum(gaps) / begin_per_s
        drawn = _talks(talk, lengths, most_tokens, (seed, int(sign > 0))).first(count)
        found.append((replace(drawn, talk=drawn.talk + num_before), starts_s[drawn.talk] + drawn.at_s))
        num_before += count
    times_s = np.concatenate([times for _, times in found])
    number, prompts, wholes = (
        np.concatenate([getattr(drawn, name) for drawn, _ in found]) for name in ("talk", "prompt", "whole")
    )
    is_last = np.append(np.diff(number) > 0, True)
    # What conversations that ended long ago have said has left the cache, or is the first to leave it.
    is_gone = np.zeros(num_before, bool)
    is_gone[number[is_last]] = times_s[is_last] < -recent_s
    past = np.flatnonzero((times_s < 0.0) & ~is_gone[number])
    held = past[np.append(np.diff(number[past]) > 0, True)] if len(past) else past
    coming = np.flatnonzero(times_s >= 0.0)
    chosen = coming[np.argsort(times_s[coming], kind="stable")][:num_requests]
    contents = _contents(talk.common_tokens, number, prompts, wholes, held[np.argsort(times_s[held])], chosen)
    begin_s = times_s[chosen[0]]
    span_s = max(times_s[chosen[-1]] - times_s[chosen[0]], 1e-9)
    stretch = len(chosen) / rate_per_s / span_s  # few conversations come faster or slower than many
    answers = (wholes - prompts)[chosen].astype(int).tolist()
    pairs = list(zip(prompts[chosen].astype(int).tolist(), answers, strict=True))
    arrivals = TraceArrivals(((times_s[chosen] - begin_s) * stretch).tolist())
    return Workload(arrivals, EmpiricalLengths(pairs, in_order=True), len(pairs), contents)


def _contents(
    common_tokens: int,
    number: NDArray[np.int64],
    prompts: NDArray[np.float64],
    wholes: NDArray[np.float64],
    held: NDArray[np.int64],
    chosen: NDArray[np.int64],
) -> Contents:
    """Return the contents that the chosen turns share with each other and with the held turns (the last turn of
    each conversation, oldest first). A conversation has one node for all that was said before, and one for all that
    it says then."""
    tree = ContentTree()
    system = tree.add(ROOT, common_tokens) if common_tokens else ROOT
    first = len(tree.parents)
    size = len(held)
    below = np.full(number.max() + 1, system)
    below[number[held]] = first + np.arange(size)
    said = np.zeros(number.max() + 1, np.int64)
    np.maximum.at(said, number[chosen], wholes[chosen].astype(np.int64))
    talks = np.flatnonzero(said)
    node = np.zeros(len(said), np.int64)
    node[talks] = first + size + np.arange(len(talks))
    tree.parents += [system] * size + below[talks].tolist()
    tree.ends += wholes[held].astype(int).tolist() + said[talks].tolist()
    nodes = node[number[chosen]].tolist()
    return Contents(tree, nodes, dict(enumerate(nodes)), list(range(first, first + size)))


@lru_cache(maxsize=16)
def _mean_turns(talk: Conversations, lengths: Lengths, most_tokens: int) -> float:
    return len(_talks(talk, lengths, most_tokens, (0, 0)).first(_SAMPLED).talk) / _SAMPLED
