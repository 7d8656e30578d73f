"""Names of tunings: a name that says what it was tuned from has that model's shape; one that changes it has none."""

import pytest

from advisor.catalog import models
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, read_csv

TUNINGS = [
    row for _, row in read_csv(DATA_DIR / "support" / "tunings.csv", ("repository", "model", "source"))
]


@pytest.mark.parametrize("base", ["llama-3.1-8b", "qwen3-30b-a3b", "mistral-7b", "gemma-2-9b"])
def test_a_name_that_ends_with_a_model_is_a_tuning_of_it(base: str) -> None:
    known = models.get(base).record
    for name in (
        f"Any-3-{base}",
        f"org/Any3.0-{base}-GGUF:Q6_K",
        f"org/{base}-abliterated",
        f"org/any-{base}-dpo-FP8",
    ):
        assert models.get(name).record.layers == known.layers


@pytest.mark.parametrize("word", ["EAGLE3", "Reward", "2x8B", "REAP-82B", "pruned", "LLaVA", "draft", "42B"])
def test_words_that_change_the_layers_are_no_tuning(word: str) -> None:
    with pytest.raises(UnknownNameError):
        models.get(f"org/Any-{word}-llama-3.1-8b")


def test_tunings_that_hide_their_base_are_known_in_every_form() -> None:
    for row in TUNINGS:
        repository = row["repository"]
        base = row["model"]
        for name in (repository, f"{repository}-FP8", f"x/{repository.rpartition('/')[2]}-GGUF:Q4_K_M"):
            assert models.get(name).record.id == base
        assert models.get(repository.rpartition("/")[2].lower()).record.hf_ids[0] == repository
        assert row["source"]
