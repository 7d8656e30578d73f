"""One replica that serves everything by itself: the hot loop of most simulations, with its state in local variables.

`Replica` is the state machine of every simulation. Where no other replica and no router can interfere between two of
its runs, `serve_alone` composes, prices and books the usual runs here, in 60 % of the time. Runs, order and records are
the same to the last bit (tests/simulator/serving/test_exactness.py).
"""

from heapq import heappop, heappush

from advisor.simulator.serving.batch import (
    Prefill,
    Request,
    book_gaps,
    iterations_until,
    iterations_until_full,
    num_blocks,
    run_ps,
)
from advisor.simulator.serving.loop import EventLoop, Site
from advisor.simulator.serving.pipeline import NEVER, delivered_ps
from advisor.simulator.serving.policy import UNLIMITED
from advisor.simulator.serving.replica import Replica


def is_usual(replica: Replica) -> bool:
    """Whether the usual runs of a replica are those of `serve_alone`: continuous batching in order of arrival, on one
    pipeline stage, without windows and without a prefix cache.

    Source: own definition.
    """
    return (
        type(replica) is Replica
        and replica.jump
        and replica.plain
        and not replica.static
        and replica.ordered is None
        and replica.tables.window_tokens is None
    )


def serve_alone(loop: EventLoop, site: Site) -> None:
    """Run the only replica of a loop until it has nothing left to do, or the loop has seen enough.

    What is rare is left to the replica itself, one run at a time.

    Source: own definition.
    """
    replica = site.replica
    batch = replica.batches[0]
    while True:
        if batch.partial is None and not replica.preempted and not replica.copying_ps:
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
    """Alternate planning and committing of runs until a rare one comes: a prompt that comes in several chunks, a
    preemption, or none at all.

    The sections are `_plan`, `_admit`, `_start_mixed`, `_start_decode`, `_tick` and `_first_tokens` of `Replica`, where
    each step is explained, in one function: only so can they share local variables.
    """
    replica = site.replica
    batch = replica.batches[0]
    blocks = replica.blocks
    delivery = replica.delivery
    pipeline = replica.pipeline
    inbox = replica.inbox
    finished = replica.finished
    gaps = replica.token_gaps
    decoding = batch.decoding
    stalled = batch.stalled
    phase_counts = batch.phase_counts
    weights = batch.weights

    decode_base_ps = replica.tables.decode_base_ps
    decode_context_ps = replica.tables.decode_context_ps
    mixed_base_ps = replica.tables.mixed_base_ps
    pair_ps = replica.tables.prefill_pair_ps
    prompt_ps = replica.tables.prefill_sequence_ps + replica.admission_ps
    riding_ps = replica.tables.riding_sequence_ps
    token_ps = delivery.token_ps
    slows_prompts = pipeline.slows_prompts
    mixed = replica.mixed
    overlap = replica.overlap
    chunked = replica.chunked
    max_tokens = replica.max_tokens
    num_slots = replica.num_slots
    may_fill = replica.may_fill
    capacity = blocks.capacity
    watermark = blocks.watermark
    reserve_fraction = blocks.reserve_fraction
    block_tokens = replica.block_tokens
    tail_tokens = block_tokens - 1

    now_ps = loop.now_ps
    tick = batch.tick
    num_decoding = batch.num_decoding
    context = batch.context_sum
    prefill_blocks = batch.prefill_blocks
    cutoff_ps = batch.cutoff_ps
    freed_sequences = batch.freed_sequences
    freed_blocks = batch.freed_blocks
    last_token_ps = batch.last_token_ps
    done_ps = delivery.done_ps
    num_running = replica.num_running
    num_admissions = replica.num_admissions
    num_events = num_iterations = busy_ps = 0
    completing: list[tuple[int, Request]] = []
    """Prompts of the run, which it computes whole, with their admission numbers."""

    head_ps = inbox[0][0] if inbox else NEVER
    """Instant at which the scheduler can see the next request."""
    while True:
        # The scheduler sees what has come by the cutoff; blocks are free for sure even if every last one is full.
        if not overlap:
            cutoff_ps = now_ps
        elif not num_decoding:
            cutoff_ps = now_ps
            freed_sequences = freed_blocks = 0
        free = UNLIMITED
        if may_fill:
            free = capacity - (context + num_decoding * tail_tokens) // block_tokens - prefill_blocks
            if free < 0 and prefill_blocks + num_blocks(context, phase_counts, tick, weights) > capacity:
                break

        # Requests are admitted in order of arrival while budget, slots and blocks last.
        num_chunks = 0
        if head_ps <= cutoff_ps:
            chunk_tokens = pairs = 0
            budget = max_tokens - num_decoding if mixed else max_tokens
            slots = num_slots - num_running - freed_sequences
            while budget > 0 and slots > 0 and head_ps <= cutoff_ps:
                request = inbox[0]
                target = tokens = request[2]
                if target > budget:
                    if not chunked:
                        break
                    tokens = budget
                whole = need = (target - 1) // block_tokens + 1
                spare = freed_blocks + watermark if num_running else freed_blocks
                if whole + spare > free and reserve_fraction != 1.0:
                    held = prefill_blocks + num_blocks(context, phase_counts, tick, weights)
                    if held + whole + spare > capacity:
                        break
                if reserve_fraction:
                    reserved = blocks.reserved_blocks + blocks.reservation(request)
                    if reserved + spare > capacity:
                        break
                    blocks.reserved_blocks = reserved
                num_running += 1
                num_admissions += 1
                if tokens == target:
                    completing.append((num_admissions, request))
                else:
                    need = (tokens - 1) // block_tokens + 1
                    batch.partial = Prefill(request, num_admissions, target, now_ps, computed=tokens)
                inbox.popleft()
                if not inbox:
                    replica.refill()
                head_ps = inbox[0][0] if inbox else NEVER
                num_chunks += 1
                chunk_tokens += tokens
                pairs += tokens * tokens
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
                mixed_base_ps[riding + chunk_tokens] + round(0.5 * (pair_ps * pairs)) + prompt_ps * num_chunks
            )
            if decodes:
                first_ps += decode_context_ps[riding] * context + riding_ps * riding
            if slows_prompts:
                batch.start_ps = now_ps
                batch.cutoff_ps = cutoff_ps
                first_ps = pipeline.prompts_ps(batch, first_ps, riding + chunk_tokens)
            run_time_ps = last_ps = first_ps
        elif decodes:
            slope_ps = decode_context_ps[num_decoding]
            first_ps = decode_base_ps[num_decoding] + slope_ps * context
            slope_ps *= num_decoding
            waits = head_ps <= now_ps
            if not (waits and overlap and (head_ps > cutoff_ps or freed_sequences or freed_blocks)):
                steps = decoding[0][0] - tick
                if may_fill and (steps - 1) * num_decoding > free * block_tokens:
                    room = capacity - prefill_blocks
                    steps = iterations_until_full(
                        context, num_decoding, phase_counts, tick, weights, room, steps
                    )
            run_time_ps = last_ps = first_ps
            if steps > 1:
                # The sum of `run_ps`, written out: most events come through here.
                run_time_ps = steps * first_ps + slope_ps * (steps * (steps - 1) // 2)
                if now_ps + run_time_ps > head_ps and not waits and num_running < num_slots:
                    steps = min(steps, iterations_until(first_ps, slope_ps, head_ps - now_ps))
                    run_time_ps = run_ps(first_ps, slope_ps, steps)
                last_ps = first_ps + slope_ps * (steps - 1)
        elif head_ps < NEVER:
            now_ps = head_ps
            continue
        else:
            break

        # The run has ended: its tokens are delivered and counted, and sequences that are complete leave.
        end_ps = now_ps + run_time_ps
        num_events += 1
        num_iterations += steps
        busy_ps += run_time_ps
        if overlap:
            cutoff_ps = end_ps - last_ps
            freed_sequences = freed_blocks = 0
        if token_ps:
            num_tokens = len(completing) + num_decoding if decodes else len(completing)
            work_ps = num_tokens * token_ps
            if steps == 1:
                done_ps = (end_ps if end_ps > done_ps else done_ps) + work_ps
            else:
                done_ps = delivered_ps(done_ps, now_ps + first_ps, end_ps, work_ps, steps)
        else:
            done_ps = end_ps
        num_finished = 0
        if decodes:
            if now_ps == last_token_ps and not stalled:
                gaps += (first_ps, slope_ps, steps, num_decoding, context, num_decoding)
            else:
                book_gaps(
                    gaps,
                    stalled,
                    last_token_ps,
                    now_ps,
                    first_ps,
                    slope_ps,
                    steps,
                    num_decoding,
                    context,
                    num_decoding,
                )
            context += num_decoding * steps
            tick += steps
            while decoding and decoding[0][0] == tick:
                _, _, request, admitted_ps, first_token_ps, num_preemptions = heappop(decoding)
                tokens = request[2] + request[3]
                num_decoding -= 1
                context -= tokens
                phase_counts[(tokens - tick) % block_tokens] -= 1
                finished += request
                finished += (admitted_ps, first_token_ps, done_ps, num_preemptions)
                num_finished += 1
                if reserve_fraction:
                    blocks.release(request)
                if overlap:
                    freed_sequences += 1
                    freed_blocks += (tokens - 2) // block_tokens + 1

        # Prompts that are complete yield a token, and decode from the next iteration on.
        stalls = num_decoding > 0 and not decodes
        if not stalls:
            last_token_ps = end_ps
        if num_chunks:
            for number, request in completing:
                _, _, input_tokens, output_tokens = request
                prefill_blocks -= (input_tokens - 1) // block_tokens + 1
                if output_tokens > 1:
                    num_decoding += 1
                    context += input_tokens + 1
                    phase_counts[(input_tokens + 1 - tick) % block_tokens] += 1
                    heappush(decoding, (tick + output_tokens - 1, number, request, now_ps, done_ps, 0))
                    if stalls:
                        stalled[number] = end_ps
                    continue
                finished += request
                finished += (now_ps, done_ps, done_ps, 0)
                num_finished += 1
                if reserve_fraction:
                    blocks.release(request)
                if overlap:
                    freed_sequences += 1
                    freed_blocks += (input_tokens - 1) // block_tokens + 1
            completing.clear()
        now_ps = end_ps
        if num_finished:
            num_running -= num_finished
            replica.num_finished += num_finished
            delivery.done_ps = done_ps
            loop.now_ps = now_ps
            loop.handle_finished(site, num_finished)
            if loop.enough:
                break
            head_ps = inbox[0][0] if inbox else NEVER
        if num_chunks and batch.partial is not None:
            break

    loop.now_ps = now_ps
    batch.tick = tick
    batch.num_decoding = num_decoding
    batch.context_sum = context
    batch.prefill_blocks = prefill_blocks
    batch.cutoff_ps = cutoff_ps
    batch.freed_sequences = freed_sequences
    batch.freed_blocks = freed_blocks
    batch.last_token_ps = last_token_ps
    delivery.done_ps = done_ps
    replica.num_running = num_running
    replica.num_admissions = num_admissions
    replica.num_events += num_events
    replica.num_iterations += num_iterations
    replica.busy_ps += busy_ps
