"""Tokens on their way from the engine to the clients, through the one process that makes answers of them."""

from advisor.simulator.serving.micro_batch import MicroBatch


class Delivery:
    """A queue with one server: detokenizer and HTTP of an engine spend a fixed time on each token of any sequence.

    The engine does not wait for it, so tokens that come faster than they are delivered queue here, and a closed loop's
    clients, who ask again when they have their last token, then keep fewer requests in the engine.

    Source: own formulation, Lindley's recursion over the iterations of a run.
    """

    __slots__ = ("done_ps", "token_ps")

    def __init__(self, token_ps: int) -> None:
        self.token_ps = token_ps
        self.done_ps = 0
        """When the last token so far reaches its client; that of its iteration where delivery takes no time."""

    def take(self, batch: MicroBatch) -> None:
        """Queue the tokens of a run that has just ended, before its sequences are booked.

        A run's iterations get longer from one to the next, if anything: the longest wait begins with what is there
        already, with its first iteration or with its last.
        """
        num_tokens = len(batch.decoding) * batch.ticking + len(batch.completing)
        work_ps = num_tokens * self.token_ps
        all_ps = batch.num_iterations * work_ps
        behind_first_ps = batch.start_ps + batch.first_ps + all_ps
        self.done_ps = max(self.done_ps + all_ps, behind_first_ps, batch.end_ps + work_ps)
