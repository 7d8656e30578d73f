"""Records of hardware, prices, models, engines and calibrations. Imports no other room.

In Python, `advisor.catalog.gpus()`, `models()`, `prices()`, `parts()`, `engines()`, `coverage()` and `show(ID)` give
what the commands of `advisor catalog` print.
"""

from importlib import import_module
from typing import Any

from advisor.catalog.listing import FUNCTIONS, MODULES, function_of


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return function_of(name)
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
