"""Classes of model types: what they take for a field that a config.json leaves out."""

import functools
from collections.abc import Mapping
from typing import Final, Literal

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema.record import Record

_FILE: Final = DATA_DIR / "class_defaults.toml"


class ClassDefaults(Record):
    """Defaults of the class that reads the config.json of a model type."""

    gated: bool | None = None
    """Whether the feed-forward part has a gate, whatever its activation; None if the activation decides."""
    tied: bool = False
    """Whether the output shares the input's table."""
    width_over_hidden: int | None = None
    """Width of the feed-forward part over the hidden size; None if the file must state it."""
    learned_positions: bool = False
    multi_query: bool = False
    """Whether all heads share one head of keys and values."""
    head_dim: int | None = None
    """Size of a head; None if heads divide the hidden size."""
    query_key_norm: Literal["none", "head", "all_heads"] = "none"
    """Width over which queries and keys are normed, unless the file says that they are not."""
    only_with: str = ""
    """Field that tells files of this class from others of the same type; empty if all are of it."""


_USUAL: Final = ClassDefaults()
_GPT2_FIELDS: Final = ("n_embd", "n_head")
"""Fields of files without a model type that are written as GPT-2's: nanoGPT's, for one."""


def class_defaults(config: ConfigFields) -> ClassDefaults:
    """Return the defaults of a file's model type; without a type, GPT-2's if the fields are named as its are.

    Source: data/class_defaults.toml.
    """
    model_type = config.text("model_type") or ("gpt2" if config.has(*_GPT2_FIELDS) else "")
    found = _classes().get(model_type, _USUAL)
    return found if not found.only_with or config.has(found.only_with) else _USUAL


@functools.cache
def _classes() -> Mapping[str, ClassDefaults]:
    rows = read_toml(_FILE)["class"]
    return {model_type: ClassDefaults.model_validate(row) for model_type, row in rows.items()}
