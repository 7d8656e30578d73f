"""Completion of a multimodal config.json, whose sections hold only what differs from the defaults of their classes."""

import functools
from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.files import DATA_DIR, read_toml

_FILE: Final = DATA_DIR / "nested_defaults.toml"
_TOLD: Final = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "sliding_window",
)
"""Fields of which a note says that the class has them: those that decide the size of the weights and of the cache."""


def with_class_defaults(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a config.json whose sections have the fields that their classes have, and a sentence on each such section.

    Fields of the file stay, also those that are null. Files of other types, or with code of their own (auto_map), are
    left as they are: their classes are not known.

    Source: huggingface/transformers, PreTrainedConfig.to_diff_dict: of a section only what differs from its class is
        written. data/nested_defaults.toml.
    """
    kinds = _table("section").get(str(values.get("model_type")))
    if values.get("auto_map") or kinds is None:
        return dict(values), ()
    completed: dict[str, Any] = {}
    told: list[str] = []
    for name, section in values.items():
        is_section = name.endswith("_config") and isinstance(section, dict)
        kind = str(section.get("model_type") or kinds.get(name, "")) if is_section else ""
        defaults = _table("class").get(kind, {})
        if not is_section:
            completed[name] = section
            continue
        inner, words = with_class_defaults(section)
        completed[name] = {**defaults, **({"model_type": kind} if defaults else {}), **inner}
        added = [
            f"{field} {defaults[field]}" for field in _TOLD if field in defaults and field not in section
        ]
        told += words
        if added:
            told.append(
                f"{name} leaves out {', '.join(added)}, which are the defaults of {kind} in transformers"
            )
    return completed, tuple(told)


@functools.cache
def _table(name: str) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = read_toml(_FILE)[name]
    return found
