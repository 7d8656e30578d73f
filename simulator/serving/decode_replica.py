"""A replica that decodes requests whose prompts were computed elsewhere: the decode side of disaggregated serving."""

from advisor.simulator.serving.micro_batch import MicroBatch, Prefill
from advisor.simulator.serving.replica import Replica


class DecodeReplica(Replica):
    """A replica whose requests arrive with their cache filled.

    A request (visible, index, cached tokens, output tokens) takes blocks for its cached tokens and joins the next
    iteration as a decoding sequence; the iteration yields its first output token here. Blocks for all its output are
    set aside at admission, so nothing is ever computed again.

    Assumes: reserve_output_fraction is 1; the cache is in place when the request becomes visible.
    Source: own design; decode workers of TensorRT-LLM and SGLang admit a request once its blocks are there.
    """

    def _admit(self, batch: MicroBatch, free: int) -> None:
        """Admit waiting requests in order of arrival while sequence slots and blocks last."""
        inbox, cutoff_ps = self.inbox, batch.cutoff_ps
        slots = self.num_slots - self.num_running - batch.freed_sequences
        while slots > 0 and inbox and inbox[0][0] <= cutoff_ps:
            request = inbox[0]
            need = (request[2] - 1) // self.block_tokens + 1
            if not self.blocks.grant(batch, request, need, alone=not self.num_running):
                return
            self.num_admissions += 1
            self.num_running += 1
            inbox.popleft()
            batch.take(Prefill(request, self.num_admissions, batch.start_ps), request[2], need)
            batch.num_admitted += 1
            slots -= 1

    def _start_mixed(self, batch: MicroBatch) -> None:
        """One decode iteration of the running sequences and of those that have just come."""
        tables, window = self.tables, self.tables.window_tokens
        cached = [entry.target for entry in batch.completing]
        num_sequences = batch.num_decoding + len(cached)
        stage_ps = tables.decode_base_ps[num_sequences] + self.admission_ps * batch.num_admitted
        stage_ps += tables.decode_context_ps[num_sequences] * (batch.context_sum + sum(cached))
        if window is not None:
            windowed = batch.window_sum + sum(min(tokens, window) for tokens in cached)
            stage_ps += tables.decode_window_ps[num_sequences] * windowed
        batch.ticking = batch.num_decoding > 0
        batch.open_to_arrivals = False
        self.pipeline.start(batch, stage_ps, 0, 1)
