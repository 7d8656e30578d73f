"""Hardware and deployment advisor for AI: which accelerators, how many, at what cost, how fast, how sure.

Functions of the commands are loaded on first use: `advisor.recommend("70b", rate=10)`. See docs/python.md.
"""

from importlib import import_module

__version__ = "0.1.0"

_FUNCTIONS = (
    "recommend",
    "replay",
    "cost",
    "build",
    "simulate",
    "roofline",
    "memory",
    "calibrate",
    "compare",
    "validate",
    "probe",
    "kernel",
)
__all__ = ["AdvisorError", "Result", "__version__", "catalog", *_FUNCTIONS]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name == "catalog":
        return import_module("advisor.catalog")
    if name == "AdvisorError":
        found: object = import_module("advisor.catalog.errors").AdvisorError
    elif name == "Result" or name in _FUNCTIONS:
        found = getattr(import_module("advisor.api"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
