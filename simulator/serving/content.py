"""Contents of prompts: a tree of token sequences in which each request is a node; shared prefixes are common
ancestors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.catalog.errors import AdvisorError, whole

ROOT = 0
"""Node of the empty prefix, which all requests share."""


class ContentTree:
    """Tree of token sequences that continue each other: two requests share the tokens above their nearest common node.

    A node stands for the tokens from its parent's end to its own. Whole blocks of a cache belong to the node in which
    they end, because a block is identified by everything up to its last token.

    Source: own formulation of chained block hashes (vLLM) and of radix trees (SGLang, arXiv:2312.07104).
    """

    __slots__ = ("ends", "parents")

    def __init__(self) -> None:
        self.parents: list[int] = [ROOT]
        self.ends: list[int] = [0]
        """Number of tokens from the beginning of a request to the end of the node, by node."""

    def add(self, parent: int, num_tokens: int) -> int:
        """Add a continuation of a node by a number of tokens; return its number."""
        self.parents.append(parent)
        self.ends.append(self.ends[parent] + num_tokens)
        return len(self.parents) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Content of each request: the node of its prompt, and of prompt and output if other requests continue them.

    A node that reaches further than the request counts as far as the request reaches.
    """

    tree: ContentTree
    prompts: Mapping[int, int] | Sequence[int]
    """Node of the prompt by request; tokens of the prompt beyond the node's end are the request's own."""
    answers: Mapping[int, int] = field(default_factory=dict)
    """Node of prompt and output by request; missing if no request sends the output back."""
    kept: Sequence[int] = ()
    """Nodes whose content earlier requests have left in the cache, oldest first."""

    @classmethod
    def empty(cls) -> "Contents":
        """Return contents without requests."""
        return cls(ContentTree(), [])


def hashed_contents(
    hash_ids: Sequence[Sequence[int]], input_tokens: Sequence[int], unit_tokens: int
) -> Contents:
    """Return the contents of prompts given as chains of ids, one per `unit_tokens` tokens; equal ids mean equal
    content.

    The last id covers the rest of the prompt. Runs of nodes at which no request leaves become one node.

    Source: own definition; the Mooncake traces have ids of 512 tokens.
    """
    nodes: dict[tuple[int, int, int], int] = {}
    parents = [ROOT]
    ends = [0]
    num_children = [0]
    is_end = [True]
    prompts = []
    for ids, tokens in zip(hash_ids, input_tokens, strict=True):
        node = ROOT
        end = 0
        for identity in ids:
            start = end
            end = min(end + unit_tokens, tokens)
            if end == start:
                break
            key = (node, identity, end)
            known = nodes.get(key)
            if known is None:
                known = nodes[key] = len(parents)
                parents.append(node)
                ends.append(end)
                num_children.append(0)
                is_end.append(False)
                num_children[node] += 1
            node = known
        is_end[node] = True
        prompts.append(node)
    tree, kept = _without_runs(parents, ends, num_children, is_end)
    return Contents(tree, [kept[node] for node in prompts])


def _without_runs(
    parents: Sequence[int], ends: Sequence[int], num_children: Sequence[int], is_end: Sequence[bool]
) -> tuple[ContentTree, list[int]]:
    """Return the tree of the nodes at which paths part or end, and for each old node the new one at or above it."""
    tree = ContentTree()
    above = [ROOT]
    for node in range(1, len(parents)):
        parent = above[parents[node]]
        if is_end[node] or num_children[node] != 1:
            parent = tree.add(parent, ends[node] - tree.ends[parent])
        above.append(parent)
    return tree, above


def infinite_cache_hit_fraction(hash_ids: Sequence[Sequence[int]]) -> float:
    """Fraction of the blocks of all prompts that an earlier prompt had: hits of a cache that never evicts.

    Source: own definition; the statistic that the Mooncake traces are published with.
    """
    seen: set[int] = set()
    num_blocks = num_hits = 0
    for ids in hash_ids:
        num_blocks += len(ids)
        num_hits += sum(identity in seen for identity in ids)
        seen.update(ids)
    return num_hits / num_blocks if num_blocks else 0.0


def mean_reused_tokens(contents: Contents) -> float:
    """Tokens of the mean prompt that an unlimited cache would hold from earlier prompts [tokens].

    Source: own definition.
    """
    parents = contents.tree.parents
    ends = contents.tree.ends
    seen = {ROOT}
    reused = 0
    num_prompts = len(contents.prompts)
    for index in range(num_prompts):
        node = contents.prompts[index]
        while node not in seen:
            seen.add(node)
            node = parents[node]
        reused += ends[node]
    return reused / num_prompts if num_prompts else 0.0


@dataclass(frozen=True, slots=True)
class SharedPrefixes:
    """Shared prefixes: every prompt begins with one of `num_prefixes` texts of num_tokens, followed by its own tokens.

    Text k, from 1 on, is chosen with probability proportional to 1 / k^skew; 0 is uniform.

    Source: own definition; Zipf's law for popularity.
    """

    num_tokens: int
    num_prefixes: int = 1
    skew: float = 0.0
    is_warm: bool = False
    """Whether earlier requests have left all prefixes in the cache, as far as it holds them."""

    def __post_init__(self) -> None:
        whole("num_tokens of shared prefixes", self.num_tokens, most=10_000_000)
        whole("num_prefixes of shared prefixes", self.num_prefixes, most=10_000_000)
        if not (math.isfinite(self.skew) and 0.0 <= self.skew <= 10.0):
            raise AdvisorError(f"skew of shared prefixes must lie in 0 to 10, not {self.skew}")

    def draw(self, rng: np.random.Generator, num_requests: int) -> Contents:
        """Draw the prefix of each of a number of requests."""
        tree = ContentTree()
        first = tree.add(ROOT, self.num_tokens)
        for _ in range(self.num_prefixes - 1):
            tree.add(ROOT, self.num_tokens)
        weights = np.arange(1, self.num_prefixes + 1, dtype=np.float64) ** -self.skew
        edges = np.cumsum(weights / weights.sum())
        chosen = np.searchsorted(edges, rng.random(num_requests), side="right")
        kept = range(first, first + self.num_prefixes) if self.is_warm else ()
        return Contents(tree, (first + np.minimum(chosen, self.num_prefixes - 1)).tolist(), kept=kept)
