"""Conditions of a measured server as columns of a case, from what was typed."""

from advisor.ask.measures import parse_rate, parse_watts
from advisor.ask.options import StatedServer
from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import known_cache, known_dtype


def stated_columns(typed: StatedServer) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what a person states about a server by column of a case, and notes on how names were understood.

    Raises: UnknownNameError: a model, accelerator, engine or format is in no record. AdvisorError: a rate or a power
        limit is malformed.
    """
    found: dict[str, str] = {}
    notes = []
    if typed.model:
        model = models.get(typed.model)
        found["model"] = (
            typed.model if models.by_hf_id(typed.model) else model.record.checkpoint or model.record.id
        )
        notes.append(model.note)
    if typed.gpu:
        chip = accelerators.get(typed.gpu)
        found["gpu"] = chip.record.id
        notes.append(chip.note)
    if typed.engine:
        engine = engines.get(typed.engine)
        found["engine"] = engine.record.id
        notes.append(engine.note)
    weights, weight_note = known_dtype(typed.precision)
    cache, cache_note = known_cache(typed.kv_precision)
    notes += [weight_note, cache_note]
    numbers = {
        "tp": typed.tp,
        "pp": typed.pp,
        "dp": typed.dp,
        "ep": typed.ep,
        "max_num_seqs": typed.max_num_seqs,
        "max_num_batched_tokens": typed.max_num_batched_tokens,
        "memory_fraction": typed.gpu_memory_utilization,
        "power_cap_w": parse_watts(typed.power_cap, "--power-cap") if typed.power_cap else None,
        "concurrency": typed.concurrency,
        "request_rate": parse_rate(typed.rate) if typed.rate else None,
        "isl": typed.input_tokens,
        "osl": typed.output_tokens,
        "shared_prefix_len": typed.shared_prefix_tokens,
    }
    found |= {name: repr(value).removesuffix(".0") for name, value in numbers.items() if value is not None}
    texts = {"engine_version": typed.engine_version, "weight_dtype": weights, "kv_dtype": cache}
    found |= {name: text for name, text in texts.items() if text}
    if typed.enforce_eager:
        found["enforce_eager"] = "1"
    return found, tuple(filter(None, notes))
