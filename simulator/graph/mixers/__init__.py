"""One file per kind of mixer, named as the `kind` of its record; each defines `Operators(record, hidden_size)`."""

from functools import lru_cache
from importlib import import_module
from typing import cast

from advisor.catalog.schema import Mixer
from advisor.simulator.graph.operator import MixerOperators


@lru_cache(maxsize=4096)
def mixer_operators(record: Mixer, hidden: int) -> MixerOperators:
    """The operators behind a mixer's record.

    Source: own definition.
    """
    module = import_module(f"{__name__}.{record.kind}")
    return cast(MixerOperators, module.Operators(record, hidden))
