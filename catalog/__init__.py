"""Records of hardware, prices, models, engines and calibrations. Imports no other room.

In Python, `advisor.catalog.gpus()`, `models()`, `prices()`, `parts()`, `engines()`, `coverage()` and `show(ID)` give
what the commands of `advisor catalog` print.
"""

from typing import Any

from advisor.catalog.listing import FUNCTIONS, function_of


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return function_of(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
