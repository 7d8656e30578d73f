"""The model records: complete, sourced, found by every name, and of the published size."""

import csv
import os
import re
from pathlib import Path

import pytest

from advisor.catalog import diffusion, models
from advisor.catalog.errors import InputFileError, UnknownNameError

ALL = models.all_models()


def shared_data() -> Path:
    """The large data folder, or a skip where it is not there."""
    folder = Path(os.environ.get("ADVISOR_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no shared data beside the repository")
    return folder


def test_family_and_size_in_words_mean_no_model_that_a_newer_one_of_the_size_replaced() -> None:
    """An id of a first generation is family and size; in words these are no version."""
    first = [one for one in models.all_ids() if re.fullmatch(r"[a-z]{3,}-\d+(\.\d+)?b", one)]
    replaced = 0
    for model_id in first:
        assert models.get(model_id).record.id == model_id
        family, size = model_id.rsplit("-", 1)
        chosen = models.get(f"{family} {size}")
        later = [each for each in ALL if re.fullmatch(rf"{family}-?\d[\d.]*-{re.escape(size)}", each.id)]
        newest = max((each.released for each in later), default=chosen.record.released)
        assert chosen.record.released >= newest or chosen.record.id == models.get(size).record.id
        assert f"taken as {chosen.record.id}" in chosen.note
        replaced += chosen.record.id != model_id
    assert replaced > 5


def test_there_are_many_models_of_every_kind() -> None:
    assert len(ALL) >= 100
    assert {model.workload for model in ALL} == {"decoder", "encoder", "diffusion", "speech"}
    kinds = {group.mixer.kind for model in ALL for group in model.layers if group.mixer}
    assert kinds == {"gqa", "mla", "gdn", "mamba2", "rwkv7", "gla", "cross"}


def test_record_is_complete_and_sourced() -> None:
    for model in ALL:
        assert model.id == model.id.lower()
        assert model.layers or diffusion.get(model.id).unet
        assert model.name
        assert model.released
        assert model.sources
        assert all(source.title and (source.where or source.note) for source in model.sources)
        estimates = [source for source in model.sources if source.kind == "estimate"]
        assert all(source.note for source in estimates), "an estimate says why"


def test_most_models_have_a_published_count() -> None:
    assert sum(model.published_parameters is not None for model in ALL) > 0.8 * len(ALL)


def test_names_file_holds_the_records_ids_and_only_known_targets() -> None:
    with models.NAMES_FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    listed = sorted((row["name"], row["id"]) for row in rows if row["kind"] == "hf")
    assert listed == sorted((name, model_id) for name, model_id, _ in models.hf_id_rows(ALL)), (
        "run tools/write_model_names.py"
    )
    assert {row["id"] for row in rows} <= set(models.all_ids())
    names = [row["name"].casefold() for row in rows]
    assert len(names) == len(set(names)), "a name stands for one record"
    assert not set(names) & set(models.all_ids())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("70b", "llama-3.1-70b"),
        ("8b", "llama-3.1-8b"),
        ("405B", "llama-3.1-405b"),
        ("r1", "deepseek-r1"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("GPT OSS 120B", "gpt-oss-120b"),
        ("meta-llama/llama-3.1-70b-instruct", "llama-3.1-70b"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "llama-3.1-70b"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"),
        ("Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b"),
        ("qwen3-235b", "qwen3-235b-a22b"),
        ("meta-llama/llama-3-1-70b-instruct", "llama-3.1-70b"),
        ("Qwen3.5-397B", "qwen3.5-397b-a17b"),
        ("gemma 27b", "gemma-3-27b"),  # the size alone stands for another family's model
        ("llama 70b", "llama-3.1-70b"),
        ("phi 14b", "phi-4"),
        ("gpt-2 124m", "gpt2"),
    ],
)
def test_get_finds_what_people_type_and_says_so(typed: str, expected: str) -> None:
    found = models.get(typed)
    assert found.record.id == expected
    assert bool(found.note) == (typed != expected)
    if found.note:
        assert expected in found.note


def test_a_size_says_which_model_was_chosen() -> None:
    assert "llama-3.1-70b" in models.get("70b").note


@pytest.mark.parametrize(
    "typed", ["lama-3.1-70b", "lama 70b", "gemma 70b", "qwen3-235b-a22", "qwen3-235", "nothing-like-it", ""]
)
def test_unknown_names_are_refused(typed: str) -> None:
    with pytest.raises(UnknownNameError):
        models.get(typed)


def test_near_misses_are_named() -> None:
    with pytest.raises(UnknownNameError) as raised:
        models.get("lama-3.1-70b")
    assert "llama-3.1-70b" in raised.value.hint


def test_get_reads_a_local_config_and_reports_a_missing_one(tmp_path: Path) -> None:
    source = Path(__file__).parent / "configs" / "llama-3.1-8b.json"
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    for ref in (str(folder), str(folder / "config.json")):
        found = models.get(ref)
        assert found.record.id == "my-model"
        assert found.record.layers == models.get("llama-3.1-8b").record.layers
        assert found.note
    with pytest.raises(InputFileError):
        models.get(str(tmp_path / "absent" / "config.json"))


def test_get_reads_one_record_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    plain = models.read_toml
    monkeypatch.setattr(models, "read_toml", lambda path: read.append(path) or plain(path))
    models.by_id.cache_clear()
    models.get("Qwen/Qwen3-8B")
    assert [path.stem for path in read] == ["qwen3-8b"]


def test_by_hf_id_ignores_case_and_knows_what_it_does_not_know() -> None:
    record = models.by_hf_id("QWEN/qwen3-8b")
    assert record is not None
    assert record.id == "qwen3-8b"
    assert models.by_hf_id("Qwen/Qwen3-9000B") is None


def test_models_of_the_serving_measurements_are_known() -> None:
    with (shared_data() / "truth" / "serving.csv").open(encoding="utf-8", newline="") as file:
        names = {row["model"] for row in csv.DictReader(file)}
    assert all(models.get(name).record.layers for name in names)


def test_models_of_the_training_measurements_are_known_by_their_hf_id() -> None:
    with (shared_data() / "truth" / "training.csv").open(encoding="utf-8", newline="") as file:
        names = {row["model"] for row in csv.DictReader(file) if "/" in row["model"]}
    assert len(names) > 15
    assert all(models.get(name).record.layers for name in names)
