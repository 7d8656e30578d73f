"""One set of kernel tests for the interpreter on a CPU and for a real GPU."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


if not MISSING and not _has_gpu():
    # Read when triton.jit decorates a kernel, so it must be set before a kernel module is imported.
    os.environ["TRITON_INTERPRET"] = "1"


class _MissingPackages(pytest.Module):
    """Stands for a test file whose imports would fail."""

    def collect(self) -> Iterator[Any]:
        pytest.skip(
            f"kernels need {' and '.join(MISSING)}: pip install '.[probe]' in a clone",
            allow_module_level=True,
        )


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if MISSING:
        return _MissingPackages.from_parent(parent, path=module_path)
    return None


def _tolerance() -> Any:
    """The module beside this one; it needs torch."""
    spec = importlib.util.spec_from_file_location("tolerance", Path(__file__).with_name("tolerance.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for themselves
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def device() -> "torch.device":
    import torch

    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


@pytest.fixture(scope="session")
def on_gpu(device: "torch.device") -> bool:
    return device.type == "cuda"


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    """Judges by the format's tolerance; says by how much it was missed."""
    deviation = _tolerance().deviation

    def check(
        actual: "torch.Tensor",
        expected: "torch.Tensor",
        dtype: "torch.dtype | None" = None,
        slack: float = 1.0,
    ) -> None:
        found = deviation(actual, expected, dtype, slack)
        assert found.is_allowed, (
            f"{tuple(actual.shape)} {dtype or actual.dtype}: worst element at {found.worst:.2f} of its "
            f"allowance, norm of the error {found.norm:.2e}"
        )

    return check


@pytest.fixture
def poison() -> Callable[["torch.Tensor"], "torch.Tensor"]:
    """Fills an output with NaN, so that an element that no program writes is found."""

    def fill(out: "torch.Tensor") -> "torch.Tensor":
        return out.fill_(float("nan"))

    return fill
