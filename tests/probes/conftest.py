"""Real recordings of H200 machines, and how to alter copies of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.schema import Accelerator
from advisor.probes.document import Probe, read_probe

MEASURED = Path(__file__).resolve().parents[2] / "catalog" / "data" / "measured"


def recordings(num_gpus: int) -> list[Path]:
    return sorted(MEASURED.glob(f"h200-sxm-x{num_gpus}-*.json"))


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """Probes of other tests do not count as running beside this one."""
    monkeypatch.setattr("advisor.probes.process.LOCK_FOLDER", tmp_path)


@pytest.fixture(scope="session")
def recording() -> Probe:
    """A full probe of one H200."""
    return read_probe(recordings(1)[-1])


@pytest.fixture(scope="session")
def h200() -> Accelerator:
    return by_id("h200-sxm")


@pytest.fixture
def altered(recording: Probe) -> Callable[..., Probe]:
    """The recording with fields of its GPU changed."""

    def change(**fields: Any) -> Probe:
        gpu = recording.machine.gpus[0].model_copy(update=fields)
        return replace(recording, machine=recording.machine.model_copy(update={"gpus": (gpu,)}))

    return change


@pytest.fixture
def scaled(recording: Probe) -> Callable[..., list[Any]]:
    """The recording's measurements, undone as their steps delivered them, with some rates multiplied."""
    from advisor.probes.verdict import remove_verdict

    def change(check: str, factor: float, instrument: str | None = None) -> list[Any]:
        measurements = []
        for m in recording.measurements:
            if not m.step:
                continue
            m = remove_verdict(m)
            if m.id == check and isinstance(m.value, float) and instrument in (None, m.instrument):
                m = m.model_copy(update={"value": factor * m.value})
            measurements.append(m)
        return measurements

    return change
