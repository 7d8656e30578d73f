"""Memory habits of training frameworks: which record a name means."""

import pytest

from advisor.catalog.training import all_software, allocator, software_of


@pytest.mark.parametrize(
    ("family", "name", "record"),
    [
        ("megatron", "NVIDIA NeMo Framework Release 24.09", "megatron"),
        ("fsdp", "litgpt", "litgpt"),
        ("fsdp", "torchtune 0.5", "torchtune"),
        ("fsdp", "composer/llm-foundry", "llm-foundry"),
        ("deepspeed", "InternEvo", "internevo"),
        ("deepspeed", "pytorch", "fsdp"),
        ("megatron", "PyTorch NVIDIA Release 24.04", "megatron"),
        ("peft", "transformers+peft", "peft"),
        ("deepspeed", "transformers+peft+deepspeed", "deepspeed on transformers"),
        ("deepspeed", "Megatron-DeepSpeed Ulysses", "deepspeed"),
        ("peft", "LLaMA-Factory", "recipes on transformers"),
        ("peft", "Unsloth 2025.3", "unsloth"),
        ("unheard of", "", "fsdp"),
    ],
)
def test_names_and_families(family: str, name: str, record: str) -> None:
    assert software_of(family, name).id == record


def test_every_record_has_a_source_and_a_family_s_first_is_its_default() -> None:
    for record in all_software():
        assert record.source.title
        assert record.states.weights + record.states.gradients >= 4.0
    assert {record.family for record in all_software()} == {
        "megatron",
        "fsdp",
        "torchtitan",
        "deepspeed",
        "maxtext",
        "peft",
    }
    assert software_of("deepspeed").id == "deepspeed"


def test_the_allocator_holds_more_than_tensors() -> None:
    assert 1.0 < allocator().reserved_factor < allocator().sharded_reserved_factor
