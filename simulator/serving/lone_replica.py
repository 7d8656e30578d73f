"""One replica that serves everything by itself: the hot loop of most simulations, with its state in local variables.

`Replica` is the state machine of every simulation. Where no other replica and no router can interfere between two of
its runs, `serve_alone` composes, prices and books the usual runs here, in 60 % of the time. Runs, order and records are
the same to the last bit (tests/simulator/serving/test_exactness.py).
"""

from heapq import heappop, heappush

from advisor.simulator.serving.batch import (
    Decoding,
    MicroBatch,
    Prefill,
    Request,
    book_gaps,
    iterations_until,
    iterations_until_full,
    num_blocks,
    window_pairs,
)
from advisor.simulator.serving.loop import EventLoop, Site
from advisor.simulator.serving.pipeline import NEVER, delivered_ps
from advisor.simulator.serving.policy import UNLIMITED
from advisor.simulator.serving.replica import Replica

Whole = tuple[int, Request]
"""Admission number of a prompt that one iteration computes whole, and its request."""


def is_usual(replica: Replica) -> bool:
    """Whether the usual runs of a replica are those of `serve_alone`: continuous batching in order of arrival, on one
    pipeline stage and without a prefix cache.

    Source: own definition.
    """
    return (
        type(replica) is Replica
        and replica.jump
        and replica.plain
        and not replica.static
        and replica.ordered is None
    )


def serve_alone(loop: EventLoop, site: Site) -> None:
    """Run the only replica of a loop until it has nothing left to do, or the loop has seen enough.

    What is rare is left to the replica itself, one run at a time.

    Source: own definition.
    """
    replica = site.replica
    batch = replica.batches[0]
    while True:
        partial = batch.partial
        resumes = partial is not None and partial.num_preemptions > 0
        if not resumes and not replica.preempted and not replica.copying_ps:
            _serve_usual_runs(loop, site)
        if loop.enough:
            return
        next_ps = replica.resume(loop.now_ps)
        if next_ps == NEVER:
            return
        loop.now_ps = next_ps
        num_finished = replica.advance(next_ps)
        if num_finished:
            loop.handle_finished(site, num_finished)


def _serve_usual_runs(loop: EventLoop, site: Site) -> None:
    """Alternate planning and committing of runs until a rare one comes: a preemption, blocks that have to be counted
    one by one for a prompt under way, or none at all.

    The sections are `_plan`, `_continue_prefill`, `_admit`, `_start_mixed`, `_start_decode` and `_tick` of `Replica`,
    where each step is explained, in one function: only so can they share local variables. What ends a sequence or a
    prompt, once per request, is in functions of its own.
    """
    replica = site.replica
    batch = replica.batches[0]
    blocks = replica.blocks
    delivery = replica.delivery
    pipeline = replica.pipeline
    inbox = replica.inbox
    gaps = replica.token_gaps
    decoding = batch.decoding
    stalled = batch.stalled
    phase_counts = batch.phase_counts
    weights = batch.weights

    decode_base_ps = replica.tables.decode_base_ps
    decode_context_ps = replica.tables.decode_context_ps
    mixed_base_ps = replica.tables.mixed_base_ps
    pair_ps = replica.tables.prefill_pair_ps
    window = replica.tables.window_tokens
    decode_window_ps = replica.tables.decode_window_ps
    window_pair_ps = replica.tables.prefill_window_pair_ps
    saturations = batch.saturations
    admission_ps = replica.admission_ps
    prompt_ps = replica.tables.prefill_sequence_ps + admission_ps
    riding_ps = replica.tables.riding_sequence_ps
    token_ps = delivery.token_ps
    slows_prompts = pipeline.slows_prompts
    mixed = replica.mixed
    overlap = replica.overlap
    num_slots = replica.num_slots
    may_fill = replica.may_fill
    reserves = replica.reserves
    chunked = replica.chunked
    max_tokens = replica.max_tokens
    watermark = blocks.watermark
    capacity = blocks.capacity
    block_tokens = replica.block_tokens
    tail_tokens = block_tokens - 1

    now_ps = loop.now_ps
    tick = batch.tick
    num_decoding = batch.num_decoding
    context = batch.context_sum
    prefill_blocks = batch.prefill_blocks
    cutoff_ps = batch.cutoff_ps
    last_token_ps = batch.last_token_ps
    done_ps = delivery.done_ps
    num_running = replica.num_running
    num_admissions = replica.num_admissions
    num_events = num_iterations = busy_ps = 0
    completing: list[Whole] = []
    """Prompts of the run, which it computes whole."""
    partial = batch.partial
    """Prompt of which a part is computed."""
    ending: Prefill | None = None
    """Prompt whose last chunk is in the run."""

    head_ps = inbox[0][0] if inbox else NEVER
    """Instant at which the scheduler can see the next request."""
    while True:
        # The scheduler sees what has come by the cutoff; blocks are free for sure even if every last one is full.
        if not overlap:
            cutoff_ps = now_ps
        elif not num_decoding and partial is None:
            cutoff_ps = now_ps
            batch.freed_sequences = batch.freed_blocks = 0
        free = UNLIMITED
        if may_fill:
            free = capacity - (context + num_decoding * tail_tokens) // block_tokens - prefill_blocks
            if free < 0 and prefill_blocks + num_blocks(context, phase_counts, tick, weights) > capacity:
                break

        # The prompt under way takes its next chunk first.
        num_chunks = chunk_tokens = pairs = windowed = whole_blocks = saved_ps = 0
        budget = max_tokens - num_decoding if mixed else max_tokens
        if partial is not None:
            computed = partial.computed
            target = partial.target
            tokens = target - computed
            if tokens > budget:
                tokens = budget
            need = (computed + tokens - 1) // block_tokens - (computed - 1) // block_tokens
            if need > free or tokens <= 0:
                break
            num_chunks = 1
            chunk_tokens = tokens
            pairs = tokens * (2 * computed + tokens)
            if window is not None:
                windowed = window_pairs(window, computed, tokens)
            saved_ps = admission_ps
            prefill_blocks += need
            free -= need
            budget -= tokens
            partial.computed = computed + tokens
            if computed + tokens == target:
                ending = partial
                batch.partial = partial = None
                whole_blocks = (target - 1) // block_tokens + 1

        # Requests are admitted in order of arrival while budget, slots and blocks last.
        if head_ps <= cutoff_ps and budget > 0:
            slots = num_slots - num_running - batch.freed_sequences
            while budget > 0 and slots > 0 and head_ps <= cutoff_ps:
                request = inbox[0]
                target = tokens = request[2]
                if target > budget:
                    if not chunked:
                        break
                    tokens = budget
                whole = need = (target - 1) // block_tokens + 1
                if reserves or whole + batch.freed_blocks + watermark > free:
                    batch.tick = tick
                    batch.num_decoding = num_decoding
                    batch.context_sum = context
                    batch.prefill_blocks = prefill_blocks
                    if not blocks.grant(batch, request, whole, alone=not num_running):
                        break
                num_running += 1
                num_admissions += 1
                if tokens == target:
                    completing.append((num_admissions, request))
                    whole_blocks += need
                else:
                    need = (tokens - 1) // block_tokens + 1
                    batch.partial = partial = Prefill(
                        request, num_admissions, target, now_ps, computed=tokens
                    )
                inbox.popleft()
                if not inbox:
                    replica.refill()
                head_ps = inbox[0][0] if inbox else NEVER
                num_chunks += 1
                chunk_tokens += tokens
                pairs += tokens * tokens
                if window is not None:
                    windowed += window_pairs(window, 0, tokens)
                prefill_blocks += need
                free -= need
                budget -= tokens
                slots -= 1

        # The run is one iteration with prompts, or decode iterations until something has to be decided.
        slope_ps = 0
        steps = 1
        decodes = num_decoding > 0
        if num_chunks:
            riding = num_decoding if mixed else 0
            decodes = riding > 0
            first_ps = (
                mixed_base_ps[riding + chunk_tokens]
                + round(0.5 * (pair_ps * pairs + window_pair_ps * windowed))
                + prompt_ps * num_chunks
            ) - saved_ps
            if decodes:
                first_ps += decode_context_ps[riding] * context + riding_ps * riding
                if window is not None:
                    first_ps += decode_window_ps[riding] * batch.window_sum
            if slows_prompts:
                batch.start_ps = now_ps
                batch.cutoff_ps = cutoff_ps
                first_ps = pipeline.prompts_ps(batch, first_ps, riding + chunk_tokens)
            run_time_ps = last_ps = first_ps
        elif decodes:
            slope_ps = decode_context_ps[num_decoding]
            first_ps = decode_base_ps[num_decoding] + slope_ps * context
            slope_ps *= num_decoding
            if window is not None:
                first_ps += decode_window_ps[num_decoding] * batch.window_sum
                slope_ps += decode_window_ps[num_decoding] * batch.num_unsaturated
            waits = head_ps <= now_ps
            if not (
                waits and overlap and (head_ps > cutoff_ps or batch.freed_sequences or batch.freed_blocks)
            ):
                steps = decoding[0][0] - tick
                if saturations and saturations[0][0] - tick < steps:
                    steps = saturations[0][0] - tick
                if may_fill and (steps - 1) * num_decoding > free * block_tokens:
                    room = capacity - prefill_blocks
                    steps = iterations_until_full(
                        context, num_decoding, phase_counts, tick, weights, room, steps
                    )
            run_time_ps = last_ps = first_ps
            if steps > 1:
                # The sums are those of `run_ps`, written out: most events come through here.
                run_time_ps = steps * first_ps + slope_ps * (steps * (steps - 1) // 2)
                if now_ps + run_time_ps > head_ps and not waits and num_running < num_slots:
                    steps = min(steps, iterations_until(first_ps, slope_ps, head_ps - now_ps))
                    run_time_ps = steps * first_ps + slope_ps * (steps * (steps - 1) // 2)
                last_ps = first_ps + slope_ps * (steps - 1)
        elif head_ps < NEVER:
            now_ps = head_ps
            continue
        else:
            break

        # The run has ended: its tokens are delivered and counted.
        start_ps = now_ps
        now_ps += run_time_ps
        num_events += 1
        num_iterations += steps
        busy_ps += run_time_ps
        if overlap:
            cutoff_ps = now_ps - last_ps
            if batch.freed_sequences:
                batch.freed_sequences = batch.freed_blocks = 0
        if token_ps:
            num_tokens = len(completing) + num_decoding if decodes else len(completing)
            if ending is not None:
                num_tokens += 1
            work_ps = num_tokens * token_ps
            if steps == 1:
                done_ps = (now_ps if now_ps > done_ps else done_ps) + work_ps
            else:
                done_ps = delivered_ps(done_ps, start_ps + first_ps, now_ps, work_ps, steps)
        else:
            done_ps = now_ps
        num_finished = 0
        if decodes:
            if start_ps == last_token_ps and not stalled:
                gaps += (first_ps, slope_ps, steps, num_decoding, context, num_decoding)
            else:
                book_gaps(
                    gaps,
                    stalled,
                    last_token_ps,
                    start_ps,
                    first_ps,
                    slope_ps,
                    steps,
                    num_decoding,
                    context,
                    num_decoding,
                )
            context += num_decoding * steps
            batch.window_sum += batch.num_unsaturated * steps
            tick += steps
            if decoding[0][0] == tick:
                num_finished, tokens = _finish_decoding(replica, batch, decoding, tick, done_ps)
                num_decoding -= num_finished
                context -= tokens
        stalls = num_decoding > 0 and not decodes
        if not stalls:
            last_token_ps = now_ps
        if num_chunks:
            last_ps = now_ps if stalls else NEVER
            if ending is not None:
                ended = [(ending.order, ending.request)]
                joined, tokens = _yield_first_tokens(
                    replica, batch, ended, tick, ending.admitted_ps, done_ps, last_ps
                )
                num_finished += 1 - joined
                num_decoding += joined
                context += tokens
                ending = None
            if completing:
                joined, tokens = _yield_first_tokens(
                    replica, batch, completing, tick, start_ps, done_ps, last_ps
                )
                num_finished += len(completing) - joined
                num_decoding += joined
                context += tokens
                completing.clear()
            prefill_blocks -= whole_blocks
        if saturations:
            batch.saturate(tick)
        if num_finished:
            num_running -= num_finished
            replica.num_finished += num_finished
            delivery.done_ps = done_ps
            loop.now_ps = now_ps
            loop.handle_finished(site, num_finished)
            if loop.enough:
                break
            head_ps = inbox[0][0] if inbox else NEVER

    loop.now_ps = now_ps
    batch.tick = tick
    batch.num_decoding = num_decoding
    batch.context_sum = context
    batch.prefill_blocks = prefill_blocks
    batch.cutoff_ps = cutoff_ps
    batch.last_token_ps = last_token_ps
    delivery.done_ps = done_ps
    replica.num_running = num_running
    replica.num_admissions = num_admissions
    replica.num_events += num_events
    replica.num_iterations += num_iterations
    replica.busy_ps += busy_ps


def _finish_decoding(
    replica: Replica, batch: MicroBatch, decoding: list[Decoding], tick: int, done_ps: int
) -> tuple[int, int]:
    """Record the sequences that end with this tick; return their number and their tokens together."""
    finished = replica.finished
    block_tokens = replica.block_tokens
    num_finished = num_tokens = 0
    while decoding and decoding[0][0] == tick:
        _, number, request, admitted_ps, first_token_ps, num_preemptions = heappop(decoding)
        tokens = request[2] + request[3]
        if batch.window_tokens is not None:
            batch.leave_window(number, tokens)
        num_tokens += tokens
        num_finished += 1
        batch.phase_counts[(tokens - tick) % block_tokens] -= 1
        finished += request
        finished += (admitted_ps, first_token_ps, done_ps, num_preemptions)
        if replica.reserves:
            replica.blocks.release(request)
        if replica.overlap:
            batch.freed_sequences += 1
            batch.freed_blocks += (tokens - 2) // block_tokens + 1
    return num_finished, num_tokens


def _yield_first_tokens(
    replica: Replica,
    batch: MicroBatch,
    completing: list[Whole],
    tick: int,
    admitted_ps: int,
    done_ps: int,
    stalled_ps: int,
) -> tuple[int, int]:
    """Let whole prompts yield a token; return how many decode from the next iteration on, and their contexts together.

    The others are complete and recorded. `stalled_ps` is the instant of their last token if other sequences wait since
    an earlier one, else NEVER.
    """
    block_tokens = replica.block_tokens
    finished = replica.finished
    num_joined = context = 0
    for number, request in completing:
        _, _, input_tokens, output_tokens = request
        if output_tokens > 1:
            num_joined += 1
            context += input_tokens + 1
            batch.phase_counts[(input_tokens + 1 - tick) % block_tokens] += 1
            if batch.window_tokens is not None:
                batch.enter_window(number, input_tokens + 1, tick)
            heappush(batch.decoding, (tick + output_tokens - 1, number, request, admitted_ps, done_ps, 0))
            if stalled_ps < NEVER:
                batch.stalled[number] = stalled_ps
            continue
        finished += request
        finished += (admitted_ps, done_ps, done_ps, 0)
        if replica.reserves:
            replica.blocks.release(request)
        if replica.overlap:
            batch.freed_sequences += 1
            batch.freed_blocks += (input_tokens - 1) // block_tokens + 1
    return num_joined, context
