"""Tests of the families of frameworks: every name belongs to one, and a typing mistake to none."""

import pytest

from advisor.simulator.training.families import family_by_whole_name, named_family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Megatron-LM", "megatron"),
        ("megatron_core", "megatron"),
        ("NeMo", "megatron"),
        ("Megatron-Bridge", "megatron"),
        ("TorchTitan", "torchtitan"),
        ("torchtune", "fsdp"),
        ("LLaMA-Factory", "peft"),
        ("huggingface", "peft"),
        ("Accelerate", "peft"),
        ("MaxText", "maxtext"),
        ("Megatron-DeepSpeed", "deepspeed"),
    ],
)
def test_a_whole_name_has_the_family_of_tables(name: str, family: str) -> None:
    assert family_by_whole_name(name) == family == named_family(name)


@pytest.mark.parametrize("name", ["megatronn", "torchtitan2", "neemo", "cuda", "jax", "my megatron fork", ""])
def test_a_typing_mistake_has_no_family(name: str) -> None:
    assert family_by_whole_name(name) == ""
