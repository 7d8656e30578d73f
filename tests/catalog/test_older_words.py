"""Commands in the words of earlier releases: no option that came later, and the same settings."""

import csv
import itertools
import json

import pytest

from advisor.catalog import engines, models
from advisor.catalog.context_scaling import scaling_words
from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import Guess, LaunchSettings, launch
from advisor.catalog.launch_options import check_command, launch_options, words_in_release
from advisor.catalog.releases import version_key

with (SUPPORT_FOLDER / "older_words.csv").open() as file:
    ROWS = list(csv.DictReader(file))
RELEASES = sorted({(row["engine"], row[column]) for row in ROWS for column in ("absent", "present")})


@pytest.mark.parametrize(
    ("engine", "release", "words", "told"),
    [
        (
            "vllm",
            "0.16.0",
            "--max-num-seqs 8 --spec-method eagle3 --spec-model org/head --spec-tokens 4",
            '--max-num-seqs 8 --speculative-config {"method":"eagle3","model":"org/head","num_speculative_tokens":4}',
        ),
        ("vllm", "0.24.0", "--spec-method ngram --spec-tokens 4", "--spec-method ngram --spec-tokens 4"),
        ("sglang", "0.5.9", "--tp-size 8 --attn-dp-size 8", "--tp-size 8 --dp-size 8 --enable-dp-attention"),
        ("sglang", "0.5.22", "--tp-size 8 --attn-dp-size 8", "--tp-size 8 --attn-dp-size 8"),
        ("sglang", "0.4.6", "--tp-size 8 --pp-size 1", "--tp-size 8"),
        (
            "vllm",
            "0.19.1",
            "--quantization fp8_per_tensor --max-num-seqs 8",
            "--quantization fp8 --max-num-seqs 8",
        ),
        ("vllm", "0.33.0", "--quantization fp8_per_tensor", "--quantization fp8_per_tensor"),
        ("lmdeploy", "0.10.0", "--tp 2", "--tp 2"),
    ],
)
def test_words_of_a_release(engine: str, release: str, words: str, told: str) -> None:
    found = words_in_release(engine, words.split(), release)
    assert [word.replace(" ", "") for word in found] == told.split()


@pytest.mark.parametrize(
    ("engine", "release", "words"),
    [
        ("vllm", "0.10.2", "--nnodes 2"),
        ("sglang", "0.4.6", "--pp-size 2"),
        ("sglang", "0.4.6", "--enable-lora"),
        ("vllm", "0.12.0", "--spec-method draft_model --spec-tokens 4"),
        ("sglang", "0.5.1", "--speculative-algorithm STANDALONE"),
    ],
)
def test_what_a_release_cannot_do_is_refused(engine: str, release: str, words: str) -> None:
    with pytest.raises(AdvisorError, match="has no option") as refused:
        words_in_release(engine, words.split(), release)
    assert refused.value.fix == f"--engine {engine}, without a release"


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_no_command_of_a_release_has_an_option_that_came_later(name: str, release: str) -> None:
    engine = engines.by_id(name)
    later = {
        row["option"]
        for row in ROWS
        if row["engine"] == name and version_key(release) < version_key(row["present"])
    }
    guesses = [None, *(Guess(kind, 3, "org/head") for kind in engine.flags.speculation)]
    for guess in guesses:
        for ranks in (1, 8):
            settings = LaunchSettings(tp=8 // ranks, dp=ranks, ep=ranks, guess=guess)
            argv = launch(engine, "org/model", settings).argv
            if any("=".join(pair) in later for pair in itertools.pairwise(argv)):
                with pytest.raises(AdvisorError, match="which the plan needs"):
                    words_in_release(name, argv, release)
                continue
            words = words_in_release(name, argv, release)
            assert not later & set(words)
            check_command(name, words, release)
            assert words_in_release(name, argv, launch_options()[name].release) == tuple(argv)


def test_windows_are_opened_with_the_key_that_a_release_reads() -> None:
    model = models.by_id("qwen3-8b")
    vllm = engines.by_id("vllm")
    for release, key in (("", "rope_parameters"), ("0.24.0", "rope_parameters"), ("0.10.2", "rope_scaling")):
        option, text = scaling_words(vllm, model, 131_072, release)
        changed = json.loads(text)
        assert option == "--hf-overrides"
        assert changed[key]["factor"] == 4.0
        assert (changed.get("rope_theta") or changed[key].get("rope_theta")) == 1_000_000


@pytest.mark.parametrize(
    ("name", "tokens"), [("qwen3-8b", 100_352), ("qwen2.5-7b", 131_072), ("qwen3-14b", 50_000)]
)
def test_an_engine_that_computes_the_factor_computes_the_stated_one(name: str, tokens: int) -> None:
    """Source: lmdeploy 0.18.0, lmdeploy/turbomind/models/utils.py: factor = new window / original window."""
    option, text = scaling_words(engines.by_id("lmdeploy"), models.by_id(name), tokens)
    changed = json.loads(text)
    values = changed["rope_parameters"]
    assert option == "--hf-overrides"
    assert changed["max_position_embeddings"] == values["factor"] * values["original_max_position_embeddings"]
    assert changed["max_position_embeddings"] >= tokens
