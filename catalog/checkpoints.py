"""Published checkpoints: which to load for a weight format, and in which format one is stored."""

import re
from typing import Final, NamedTuple

from advisor.catalog.models import by_hf_id
from advisor.catalog.schema import Model

_FORMATS: Final = {
    "fp8": re.compile(r"fp8", re.IGNORECASE),
    "nvfp4": re.compile(r"nvfp4|-fp4", re.IGNORECASE),
    "mxfp4": re.compile(r"mxfp4", re.IGNORECASE),
    "int4": re.compile(r"awq|gptq|w4a16|int4", re.IGNORECASE),
    "int8": re.compile(r"w8a8|int8", re.IGNORECASE),
}
CHAT: Final = re.compile(r"instruct|chat|-it\b|thinking", re.IGNORECASE)
_DERIVED: Final = re.compile(r"distill|base\b|zero\b|vl-", re.IGNORECASE)


class Checkpoint(NamedTuple):
    """A published checkpoint and the format in which it stores its weights."""

    hf_id: str
    weight_dtype: str


def checkpoint_for(model: Model, weight_dtype: str, engine: str = "") -> Checkpoint:
    """The checkpoint that serves a model in a weight format: published in it where the record lists one, else the
    16-bit or native one, which the engine quantises on loading.

    NVIDIA's own checkpoints come first for TensorRT-LLM and last elsewhere; instruct models before base ones.

    Assumes: the names of checkpoints say their format, as publishers write them.
    Source: hf_ids of the model record.
    """
    if not model.hf_ids:
        return Checkpoint(model.id, model.weights)
    wanted = _FORMATS.get(weight_dtype)
    if wanted is not None and weight_dtype != model.weights:
        stored = [hf_id for hf_id in model.hf_ids if wanted.search(hf_id)]
        if stored:
            return Checkpoint(min(stored, key=lambda hf_id: _order(hf_id, model, engine)), weight_dtype)
    plain = [hf_id for hf_id in model.hf_ids if not any(form.search(hf_id) for form in _FORMATS.values())]
    return Checkpoint(
        min(plain or model.hf_ids, key=lambda hf_id: _order(hf_id, model, engine)), model.weights
    )


def checkpoint_format(hf_id: str) -> str | None:
    """Weight format in which the checkpoint of a Hugging Face id is published; None where no record lists it.

    Assumes: as checkpoint_for; a name that says several says the one that counts first.
    Source: names of checkpoints, else the record.
    """
    model = by_hf_id(hf_id)
    if model is None:
        return None
    said = {dtype: found.start() for dtype, form in _FORMATS.items() if (found := form.search(hf_id))}
    if said:
        return min(said, key=said.__getitem__)
    others = {stored.hf_id.casefold(): stored.weights for stored in model.other_checkpoints}
    return others.get(hf_id.casefold(), model.weights)


def _order(hf_id: str, model: Model, engine: str) -> tuple[bool, bool, bool, int]:
    nvidia = hf_id.startswith("nvidia/")
    return (
        bool(_DERIVED.search(hf_id)),
        nvidia != (engine == "tensorrt-llm"),
        not CHAT.search(hf_id),
        model.hf_ids.index(hf_id),
    )
