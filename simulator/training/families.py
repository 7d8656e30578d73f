"""Families of training frameworks: the family that a framework or a recipe belongs to, by its name."""

from typing import Final

from advisor.catalog.resolve import drop_separators

OF_TRANSFORMERS: Final = ("peft", "fsdp", "deepspeed")
"""Families of trainers that run a model of Transformers."""
_FAMILIES: Final = (
    ("maxtext", ("maxtext", "jax", "pax", "t5x", "saxml", "levanter", "easylm")),
    ("torchtitan", ("torchtitan", "titan")),
    ("deepspeed", ("deepspeed", "internevo", "internlm", "colossal", "habana", "gaudi")),
    (
        "peft",
        (
            "peft",
            "transformers",
            "accelerate",
            "unsloth",
            "axolotl",
            "trl",
            "llama-factory",
            "llamafactory",
            "hugging",
            "xtuner",
            "ms-swift",
        ),
    ),
    (
        "fsdp",
        (
            "fsdp",
            "automodel",
            "composer",
            "llm-foundry",
            "mosaic",
            "torchtune",
            "litgpt",
            "lightning",
            "fms",
            "nanogpt",
            "nanochat",
        ),
    ),
    (
        "megatron",
        (
            "megatron",
            "nemo",
            "hai-llm",
            "hai_llm",
            "hai llm",
            "nvidia",
            "ngc",
            "primus",
            "mcore",
            "bridge",
            "simumax",
            "nanotron",
            "neuron",
            "nxd",
            "cuda",
            "mxnet",
        ),
    ),
)
"""Words by family; the first family with a word that the name contains applies."""

_PLATFORMS: Final = frozenset({"jax", "nvidia", "ngc", "cuda", "mxnet", "neuron", "habana", "gaudi"})
"""Words that tables of published runs have instead of a framework; they name none to a user."""
_ENDINGS: Final = frozenset({"", "lm", "core", "face"})
"""Ends of names of frameworks that are no name themselves: Megatron-LM, Megatron-Core, Hugging Face."""


def named_family(framework: str) -> str:
    """Return the family of a framework, as `TrainingJob.framework` names it; empty if no family has such a name.

    Source: documentation of the frameworks: NeMo and Megatron-Bridge run Megatron-Core, torchtune and litgpt PyTorch's
        FSDP, TRL and Axolotl Transformers with PEFT.
    """
    words = framework.casefold()
    return next((family for family, names in _FAMILIES if any(name in words for name in names)), "")


def family_by_whole_name(framework: str) -> str:
    """Return the family of a framework that a user names, whatever its case and marks; empty if a part of the name is
    no framework's, as in a typing mistake.

    Source: as `named_family`.
    """
    rest = drop_separators(framework)
    for name in (name for _, names in _FAMILIES for name in names if name not in _PLATFORMS):
        rest = rest.replace(drop_separators(name), "")
    return named_family(framework) if rest in _ENDINGS else ""
