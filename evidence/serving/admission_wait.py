"""How long a prompt waits for an engine that looks for new requests only now and then: mean-field, in decode steps."""


def polling_wait_steps(interval_steps: int) -> float:
    """Mean wait of a request that arrives while an engine looks at its queue every so many steps [decode steps].

    (k - 1) / 2: an engine that looks at every step makes nobody wait.

    Assumes: arrivals fall anywhere in the interval; decoding never pauses, as an idle engine looks at once.
    Source: own derivation; SGLang's scheduler_recv_interval and num_continuous_decode_steps.
    """
    return (interval_steps - 1) / 2.0


def gathering_wait_steps(arrivals_per_step: float, enough: float, most_steps: int) -> float:
    """Mean wait of prompts that are held until enough of them can compute together [decode steps].

    The first prompt opens a window of T = min(most_steps, (enough - 1) / rate) steps; it waits T, those that join it
    wait T / 2 on average: (T + rate T · T / 2) / (1 + rate T).

    Assumes: arrivals at a constant rate; the wait of the burst that opens a benchmark is small against the run.
    Source: own derivation; TensorRT-LLM's batch_wait_timeout_iters and attention_dp_config.timeout_iters.
    """
    if enough <= 1.0 or most_steps <= 0:
        return 0.0
    steps = min(float(most_steps), (enough - 1.0) / arrivals_per_step)
    joined = arrivals_per_step * steps
    return (steps + joined * steps / 2.0) / (1.0 + joined)
