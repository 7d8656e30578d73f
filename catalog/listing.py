"""Modules of the room that are functions too: `advisor.catalog.models()` lists what `advisor catalog models` does.

The room holds modules of the same names as these commands, and knows no other room: the interface is looked up by its
name when a function is called.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

FUNCTIONS: Final = ("bits", "coverage", "efficiency", "gpus", "show")
"""Commands of `advisor catalog` whose name no module of the room has."""

MODULES: Final = ("engines", "interconnects", "models", "parts", "prices")
"""Modules of the room whose names are commands of `advisor catalog`: they are imported when they are first named."""


def function_of(name: str) -> Any:
    """Return the function of `advisor catalog <name>`."""
    return import_module("advisor.api").function_of(f"catalog {name}")


class CallableModule(ModuleType):
    """A module of the room that lists what the command of its name does."""

    def __call__(self, *arguments: object, **options: object) -> Any:
        """Return the result of the command of the module's name."""
        return function_of(self.__name__.rpartition(".")[2])(*arguments, **options)


def make_callable(name: str) -> None:
    """Let a module be called; `name` is its `__name__`."""
    sys.modules[name].__class__ = CallableModule
