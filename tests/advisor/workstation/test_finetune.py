"""QLoRA on a workstation: which plans its memories hold."""

import pytest

from advisor.catalog import models
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.training.memory.peak import is_too_large_to_load
from advisor.workstation.finetune import SIZES, best_tuning, largest_tuning, tuning_job, tuning_need
from advisor.workstation.hardware import Hardware

GB = 1e9
TOKENS = 1024


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-5090", "l40s"])
def test_more_main_memory_loses_no_plan_and_no_speed(gpu: str, num: int) -> None:
    """A model that no card holds whole is started by the framework that divides it while it is read."""
    for name in SIZES:
        model = models.by_id(name)
        speeds = []
        for host_bytes in (0.0, 32 * GB, 128 * GB, 1024 * GB):
            hardware = Hardware(gpu, num, host_capacity_bytes=host_bytes)
            run = best_tuning(hardware, model, TOKENS)
            card_bytes = hardware.record().memory_bytes
            assert card_bytes is not None
            assert tuning_need(model, hardware, TOKENS).fits(hardware) is (run is not None), name
            if run is not None:
                divided = is_too_large_to_load(tuning_job(model, TOKENS), card_bytes)
                assert run.engine == ("axolotl" if divided else "peft"), name
            speeds.append(run.output_tokens_per_s.value if run is not None else 0.0)
        assert speeds == sorted(speeds), name


def test_70b_on_two_cards_of_24_gb_takes_its_weights_from_main_memory() -> None:
    """The example of the guides of FSDP-QLoRA: 4-bit weights of 70 billion parameters are 40 GB."""
    model = models.by_id("llama-3.1-70b")
    run = best_tuning(Hardware("rtx-3090", 2, host_capacity_bytes=128 * GB), model, TOKENS)
    assert run is not None
    assert "main memory" in run.split
    assert best_tuning(Hardware("rtx-3090", 2, host_capacity_bytes=32 * GB), model, TOKENS) is None


@pytest.mark.parametrize("name", ["gpt-oss-120b", "llama-3.1-70b", "llama-3.1-405b"])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_what_a_model_takes_is_of_one_plan_whether_the_machine_holds_it_or_not(name: str, num: int) -> None:
    model = models.by_id(name)
    small = Hardware("rtx-4090", num, host_capacity_bytes=1 * GB)
    needed = tuning_need(model, small, TOKENS)
    enough = Hardware("rtx-4090", num, host_capacity_bytes=needed.host_bytes)
    same = tuning_need(model, enough, TOKENS)
    assert (same.split, same.card_bytes) == (needed.split, needed.card_bytes)
    assert needed.fits(enough) is (needed.card_bytes <= 24 * 1024**3)


@pytest.mark.parametrize("gpu", ["rtx-5070-ti", "rtx-3090", "rtx-5090", "rtx-a6000"])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_a_plan_that_is_chosen_leaves_the_margin_by_which_peaks_err(gpu: str, num: int) -> None:
    for name in SIZES:
        hardware = Hardware(gpu, num, host_capacity_bytes=256 * GB)
        run = best_tuning(hardware, models.by_id(name), TOKENS)
        memory = hardware.record().memory_bytes
        assert memory is not None
        assert run is None or 1.1 * run.weight_bytes_per_card <= memory


@pytest.mark.parametrize("name", ["qwen3-235b-a22b", "gpt-oss-120b", "qwen3-32b"])
def test_no_model_is_named_that_is_larger_than_the_one_that_does_not_fit(name: str) -> None:
    model = models.by_id(name)
    found = largest_tuning(Hardware("mi50", 6, host_capacity_bytes=512 * GB), TOKENS, model)
    assert not found or parameter_count(models.by_id(found)).total < parameter_count(model).total
