"""Quality notes: the literature's words with their source, and no number that is not in it."""

import re

import pytest

from advisor.catalog import engines, models
from advisor.catalog.engines import quality_note
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.model_quality import read_quality

LLAMA = models.by_id("llama-3.1-8b")


def test_the_checkpoints_own_format_costs_nothing() -> None:
    assert quality_note(LLAMA, "bf16") == "bf16 is the published checkpoint's own format."
    assert (
        quality_note(models.by_id("gpt-oss-120b"), "mxfp4")
        == "mxfp4 is the published checkpoint's own format."
    )


@pytest.mark.parametrize("dtype", ["fp8", "int8", "int4"])
def test_a_lower_precision_is_cited(dtype: str) -> None:
    note = quality_note(LLAMA, dtype)
    assert dtype in note
    assert note.endswith("arXiv:2411.02355)")


def test_what_nobody_evaluated_is_said_so() -> None:
    assert quality_note(LLAMA, "fp6") == "no published evaluation of fp6 is in the catalog"


def test_every_note_has_a_source_unless_it_is_the_reference() -> None:
    for dtype, entry in read_toml(DATA_DIR / "quality.toml").items():
        assert entry["source"] or "reference" in entry["note"], dtype
        if re.search(r"\d %", entry["note"]):
            assert "arXiv" in entry["source"], dtype


def test_every_format_of_the_fast_engines_has_a_note() -> None:
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        for dtype in engines.by_id(engine).weight_dtypes:
            assert "no published evaluation" not in quality_note(LLAMA, dtype), (engine, dtype)


def test_published_scores_are_of_known_models_each_with_its_setting_and_source() -> None:
    scores = read_quality()
    assert len(scores) >= 30
    assert all(models.by_id(model) for model in scores)
    assert {score.setting for score in scores.values()} == {"direct", "reasoning"}
    assert {score.benchmark for score in scores.values()} == {"MMLU-Pro"}
    assert all(0 < score.score_percent < 100 and len(score.source) > 10 for score in scores.values())
