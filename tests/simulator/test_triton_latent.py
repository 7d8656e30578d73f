"""SGLang's Triton decode of latent attention against single measurements, and its laws."""

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.attention_kernels import secant_over_context
from advisor.simulator.operators.triton_latent import (
    TritonLatentEfficiency,
    triton_latent_s,
)

MICRO = 1e-6


def device(name: str = "h100-sxm") -> Device:
    return device_of(by_id(name))


def constants() -> TritonLatentEfficiency:
    return TritonLatentEfficiency.from_record(efficiency("hopper", "mla_triton", "bf16").record)


@pytest.mark.parametrize(
    ("heads", "batch", "context", "measured_us"),
    [
        (20, 1, 1024, 25.84),
        (20, 1, 8192, 167.5),
        (20, 16, 4096, 235.27),
        (20, 32, 1024, 172.37),
        (20, 64, 2048, 342.59),
        (20, 128, 4096, 701.12),
        (16, 8, 2048, 64.63),
        (8, 64, 2048, 190.91),
    ],
)
def test_single_measurements_are_met(heads: int, batch: int, context: int, measured_us: float) -> None:
    """Source: evidence/fit/measured_triton_latent.csv, one H100."""
    found = triton_latent_s(batch, context, heads, device(), constants())
    assert float(found) / MICRO == pytest.approx(measured_us, rel=0.08)


def test_few_sequences_are_split_and_many_are_not() -> None:
    at = device()
    fit = constants()
    one, many = (float(triton_latent_s(batch, 4096, 20, at, fit)) for batch in (1, 64))
    assert many / one == pytest.approx(8.0, rel=0.1)
    assert float(triton_latent_s(100, 4096, 20, at, fit)) == pytest.approx(many, rel=1e-9)


def test_time_grows_with_context_and_batch() -> None:
    at = device()
    fit = constants()
    batches = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0])
    assert np.all(np.diff(triton_latent_s(batches, 2048, 20, at, fit)) >= 0)
    assert np.all(
        np.diff(triton_latent_s(16.0, np.array([1.0, 64.0, 512.0, 4096.0, 65536.0]), 20, at, fit)) > 0
    )


def test_a_line_meets_the_times_that_it_was_drawn_through() -> None:
    at = device("b200-sxm")
    fit = constants()
    batch = np.array([1.0, 16.0, 64.0])
    intercept, slope = secant_over_context(
        lambda sequences, context: triton_latent_s(sequences, context, 20, at, fit), batch, 1000.0, 3000.0
    )
    for context in (1000.0, 3000.0):
        assert intercept + slope * batch * context == pytest.approx(
            triton_latent_s(batch, context, 20, at, fit)
        )
