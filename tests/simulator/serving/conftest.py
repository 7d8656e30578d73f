"""A second serving simulator, as plain as possible: a list of sequences, every sum taken anew in every iteration.

It shares only the surface, the policy and the drawn requests with the real one, which must equal it.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from advisor.simulator.serving import ClosedLoop, SchedulerPolicy, Workload
from advisor.simulator.serving.workload import draw_arrivals, draw_contents, draw_requests
from advisor.simulator.step_cost import StepSurface


@dataclass
class Sequence:
    index: int
    arrived: int
    visible: int
    prompt: int
    output: int
    phase: str = "prefill"  # prefill -> decode -> (static only) padded
    admitted: int = -1
    first: int = -1
    last: int = -1
    generated: int = 0
    context: int = 0  # cached tokens
    preemptions: int = 0
    covered: int = 0  # blocks of its content that it hit or computed

    @property
    def target(self) -> int:
        return self.prompt + self.generated


class PlainCache:
    """A prefix cache block by block: a key per block, a list of idle keys in the order in which they were left."""

    def __init__(self, contents, block_tokens: int) -> None:
        self.contents = contents
        self.block_tokens = block_tokens
        self.cached: set[tuple[int, int]] = set()
        self.idle: OrderedDict[tuple[int, int], None] = OrderedDict()

    def keys(self, node: int) -> list[tuple[int, int]]:
        """A key for each whole block from the beginning to the end of a node."""
        tree = self.contents.tree
        path = []
        num_blocks = tree.ends[node] // self.block_tokens
        while node:
            path.append(node)
            node = tree.parents[node]
        return [
            (
                min(
                    (n for n in path if tree.ends[n] >= (i + 1) * self.block_tokens),
                    key=tree.ends.__getitem__,
                ),
                i,
            )
            for i in range(num_blocks)
        ]

    def prompt(self, s: Sequence) -> list[tuple[int, int]]:
        return self.keys(self.contents.prompts[s.index])

    def pinned_keys(self, running: list[Sequence]) -> set[tuple[int, int]]:
        return {key for s in running for key in self.prompt(s) if key in self.cached}

    def leave(self, s: Sequence, running: list[Sequence]) -> None:
        pinned = self.pinned_keys(running)
        keys = self.prompt(s)
        answer = self.contents.answers.get(s.index)
        if answer is not None and s.generated == s.output:
            keys = self.keys(answer)[: (s.prompt + s.output - 1) // self.block_tokens]
            self.cached.update(keys)
        for key in reversed(keys):
            if key in self.cached and key not in pinned:
                self.idle.pop(key, None)
                self.idle[key] = None


class PlainSimulator:
    """One stage, one replica, one iteration at a time."""

    def __init__(self, surface: StepSurface, policy: SchedulerPolicy, workload: Workload, seed: int) -> None:
        self.surface = surface
        self.policy = policy
        self.mixed = policy.kind in ("mixed", "single_stream")
        self.static = policy.kind == "static"
        self.reserve = 1.0 if self.static else policy.reserve_output_fraction
        self.capacity = policy.kv_capacity_blocks if policy.kv_capacity_blocks is not None else 10**15
        contents = draw_contents(workload, seed)
        self.cache = None
        if policy.prefix_caching and contents is not None and not self.static:
            self.cache = PlainCache(contents, policy.block_tokens)
        self.drawn = draw_requests(workload, seed)
        self.left = workload.num_requests
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.freed: list[Sequence] = []  # ended with the last iteration
        self.decoding_begun = False
        self.rows: list[tuple[int, ...]] = []
        self.gaps: list[int] = []
        self.refused = self.iterations = self.delivered = self.host = self.hot = 0
        self.full_clock = surface.full_clock_ps
        self.closed = isinstance(workload.arrivals, ClosedLoop)
        if isinstance(workload.arrivals, ClosedLoop):
            for start in workload.arrivals.start_instants_ps(min(workload.arrivals.concurrency, self.left)):
                self.send(start)
        else:
            instants = draw_arrivals(workload, seed)
            while self.left:
                self.send(next(instants), again=False)

    def send(self, now: int, again: bool = True) -> None:
        while self.left:
            self.left -= 1
            index, prompt, output = next(self.drawn)
            largest = self.policy.largest_request_tokens
            whole = self.policy.largest_prompt_tokens
            if (largest is None or prompt + output <= largest) and (whole is None or prompt <= whole):
                self.waiting.append(Sequence(index, now, now + self.policy.api_overhead_ps, prompt, output))
                # preempted ones first, in the order in which they stand; Python's sort is stable
                self.waiting.sort(key=lambda s: -1 if s.preemptions else s.visible)
                return
            self.refused += 1
            if not again:
                return

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.policy.block_tokens)

    def num_held(self) -> int:
        held = sum(self.blocks(s.context + (s.phase != "prefill")) for s in self.running)
        return held - self.overlap()

    def overlap(self) -> int:
        if self.cache is None:
            return 0
        return sum(s.covered for s in self.running) - len(self.cache.pinned_keys(self.running))

    def make_space(self) -> None:
        while self.cache and self.cache.idle and self.num_held() + len(self.cache.idle) > self.capacity:
            self.cache.cached.remove(self.cache.idle.popitem(last=False)[0])

    def hits(self, s: Sequence) -> tuple[int, int]:
        """Cached blocks at the beginning of a request's prompt, and how many of them others use."""
        if self.cache is None:
            return 0, 0
        keys = self.cache.prompt(s)
        most = (s.target - 1) // self.policy.block_tokens
        cached = next((i for i, key in enumerate(keys) if key not in self.cache.cached), len(keys))
        pinned = self.cache.pinned_keys(self.running)
        return min(cached, most), min(cached, most, sum(key in pinned for key in keys))

    def cover(self, s: Sequence) -> None:
        if self.cache is not None:
            keys = self.cache.prompt(s)
            s.covered = min(s.context // self.policy.block_tokens, len(keys))
            self.cache.cached.update(keys[: s.covered])
            for key in keys:
                self.cache.idle.pop(key, None)

    def reservation(self, s: Sequence) -> int:
        return self.blocks(s.prompt + int(self.reserve * (s.output - 1)))

    def run(self) -> None:
        now = previous_start = 0
        while self.running or self.waiting:
            overlap = self.policy.overlap_scheduling and bool(self.running)
            if not self.running and not self.waiting[0].preemptions:
                now = max(now, self.waiting[0].visible)
            if not overlap:
                self.freed = []
            took = self.iterate(now, previous_start if overlap else now)
            previous_start = now
            now = now + took
            self.book(now)
            if self.closed:
                for _ in range(self.num_done):
                    self.send(self.delivered)

    def preempt(self, s: Sequence) -> None:
        self.running.remove(s)
        if self.cache is not None:
            self.cache.cached -= set(self.cache.idle)
            self.cache.idle.clear()
            self.cache.leave(s, self.running)
        s.context = 0
        s.phase = "prefill"
        s.preemptions = s.preemptions + 1
        s.covered = 0
        self.waiting.insert(0, s)

    def iterate(self, now: int, cutoff: int) -> int:
        """Compose one iteration and price it [ps]."""
        policy = self.policy
        preempted = False
        if self.reserve < 1.0:
            while any(s.phase == "decode" for s in self.running) and self.num_held() > self.capacity:
                self.preempt(self.running[-1])
                preempted = True
        self.ticking = [s for s in self.running if s.phase != "prefill"]
        budget = policy.max_num_batched_tokens - (len(self.ticking) if self.mixed else 0)
        chunks: list[tuple[Sequence, int]] = []
        for s in [s for s in self.running if s.phase == "prefill"]:
            tokens = min(s.target - s.context, budget)
            needed = self.num_held() - self.blocks(s.context) + self.blocks(s.context + tokens)
            if self.reserve < 1.0 and needed > self.capacity:
                self.preempt(s)
                preempted = True
                break
            if tokens:
                chunks.append((s, s.context))
                s.context += tokens
                self.cover(s)
                budget -= tokens
        num_admitted = 0
        while not preempted and budget and self.may_admit(cutoff, budget):
            s = self.waiting.pop(0)
            cached = self.hits(s)[0] * policy.block_tokens
            self.running.append(s)
            s.admitted = now if s.admitted < 0 else s.admitted
            s.context = cached + min(s.target - cached, budget)
            self.cover(s)
            chunks.append((s, cached))
            budget -= s.context - cached
            num_admitted += 1
        self.make_space()
        self.iterations += 1
        if chunks and not self.mixed:
            self.ticking = []
        if not chunks:
            self.decoding_begun = True
        took = self.price(chunks, num_admitted)
        tokens = sum(s.context - cached for s, cached in chunks)
        if chunks:
            took = self.at_its_clock(took, now)
        if (
            not self.surface.launch_ps
            or not chunks
            or len(self.ticking) + tokens <= self.surface.captured_tokens
        ):
            return took
        self.host = max(self.host, cutoff) + self.surface.launch_ps
        return max(took, self.host - now)

    def at_its_clock(self, took: int, now: int) -> int:
        """Work with what is left of the full clock, then with the limited one."""
        surface = self.surface
        most = self.surface.full_clock_ps
        full = min(most, self.full_clock + round(surface.clock_recovery * max(0, now - self.hot)))
        work = max(0, took - surface.reading_ps)
        self.full_clock = max(0, full - work)
        if work > full and surface.limited_scale > 1.0:
            took += round((surface.limited_scale - 1.0) * (work - full))
        self.hot = now + took
        return took

    def may_admit(self, cutoff: int, budget: int) -> bool:
        policy = self.policy
        if not self.waiting or len(self.running) + len(self.freed) >= policy.num_slots:
            return False
        s = self.waiting[0]
        if (not s.preemptions and s.visible > cutoff) or (self.static and self.decoding_begun):
            return False
        self.make_space()
        cached, shared = self.hits(s)
        left = s.target - cached * policy.block_tokens
        if budget < left and not policy.chunked_prefill:
            return False
        watermark = policy.watermark_blocks if self.running else 0
        taken = sum(self.reservation(r) for r in self.running) + self.reservation(s) if self.reserve else 0
        freed = sum(self.blocks(f.prompt + f.output - 1) - f.covered for f in self.freed)
        spare = freed + watermark
        needed = self.num_held() + self.blocks(s.target) - shared if self.reserve < 1.0 else 0
        taken -= self.overlap() + shared if self.reserve else 0
        return needed + spare <= self.capacity and taken + spare <= self.capacity

    def price(self, chunks: list[tuple[Sequence, int]], num_admitted: int) -> int:
        surface = self.surface
        d = len(self.ticking)
        time = 0
        window = surface.window_tokens
        if d:
            contexts = [s.context + 1 for s in self.ticking]
            time += surface.decode_context_ps[d] * sum(contexts)
            if window is not None:
                time += surface.decode_window_ps[d] * sum(min(context, window) for context in contexts)
        if not chunks:
            return time + surface.decode_base_ps[d]
        time += surface.riding_sequence_ps * d
        pairs = sum((s.context - cached) * (cached + s.context) for s, cached in chunks) / 2
        window_pairs = 0.0
        if window is not None:
            window_pairs = sum(
                min(query + 0.5, window) for s, cached in chunks for query in range(cached, s.context)
            )
        time += surface.mixed_base_ps[d + sum(s.context - cached for s, cached in chunks)]
        time += round(surface.prefill_pair_ps * pairs + surface.prefill_window_pair_ps * window_pairs)
        return time + surface.prefill_sequence_ps * len(chunks) + self.policy.admission_ps * num_admitted

    def book(self, now: int) -> None:
        """Tokens that the iteration yields, and the sequences that they complete."""
        self.freed = []
        self.num_done = 0
        yields = [
            s for s in self.running if s in self.ticking or (s.phase == "prefill" and s.context == s.target)
        ]
        for _ in [s for s in yields if s.phase != "padded"]:
            self.delivered = max(self.delivered, now) + self.policy.delivery_ps
        self.delivered = max(self.delivered, now)
        for s in list(self.running):
            if s in self.ticking:
                s.context += 1
            elif s.phase != "prefill" or s.context < s.target:
                continue
            if s.phase == "padded":
                continue
            if s.first < 0:
                s.first = self.delivered
            else:
                self.gaps.append(now - s.last)
            s.phase = "decode"
            s.last = now
            s.generated = s.generated + 1
            if s.generated == s.output:
                self.num_done += 1
                times = (s.index, s.arrived, s.admitted, s.first, self.delivered)
                self.rows.append((*times, s.prompt, s.output, s.preemptions))
                if self.static:
                    s.phase = "padded"
                else:
                    self.freed.append(s)
                    self.running.remove(s)
                    if self.cache is not None:
                        others = self.cache.pinned_keys(self.running)
                        s.covered = sum(key in others for key in self.cache.prompt(s)[: s.covered])
                        self.cache.leave(s, self.running)
        if self.static and all(s.phase == "padded" for s in self.running):
            self.running = []
            self.decoding_begun = False


@pytest.fixture
def plain() -> Callable[[StepSurface, SchedulerPolicy, Workload, int], PlainSimulator]:
    """Run the plain simulator to its end."""

    def run(surface: StepSurface, policy: SchedulerPolicy, workload: Workload, seed: int) -> PlainSimulator:
        simulator = PlainSimulator(surface, policy, workload, seed)
        simulator.run()
        return simulator

    return run
