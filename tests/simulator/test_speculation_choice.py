"""Speculation by name: published acceptance and its range, what does not go together, and what a range does."""

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.catalog.speculation import speculation_methods, usual_acceptance
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.deployment import named_deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.speculation import NAMES, chosen_speculation, expected_tokens, widened

TARGET = named_deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4)
R1 = named_deployment("deepseek-r1", "h200-sxm", weight_dtype="fp8", tensor_parallel=8)
ROW = {
    "case_id": "x", "engine": "tensorrt-llm", "date": "2026-02-06", "model": "deepseek-ai/DeepSeek-R1",
    "gpu": "b200-sxm", "n_gpus": "8", "tp": "8", "weight_dtype": "nvfp4", "load": "closed", "concurrency": "8",
    "isl": "1024", "osl": "1024", "length_dist": "uniform:0.8", "num_requests": "80",
}  # fmt: skip


def test_every_method_has_a_usual_number_of_guesses_and_sourced_acceptance() -> None:
    assert set(speculation_methods()) == {*NAMES, "draft_model"}
    for method in speculation_methods().values():
        for entry in method.acceptance:
            assert 0 < entry.low <= entry.value <= entry.high < 1
            assert "arXiv" in entry.source.title


def test_published_acceptance_where_none_is_given() -> None:
    chosen = chosen_speculation("mtp", R1)
    assert (chosen.speculation.draft_tokens, chosen.speculation.acceptance) == (1, 0.87)
    assert "2412.19437" in chosen.source
    longer = chosen_speculation("mtp", R1, draft_tokens=3)
    assert (
        longer.speculation.acceptance < chosen.speculation.acceptance
    )  # one module that guesses three times
    low, high = longer.time_factors
    yielded = longer.speculation.tokens_per_step
    assert low == pytest.approx(yielded / expected_tokens(0.85, 3))
    assert high == pytest.approx(yielded / expected_tokens(0.60, 3))


def test_given_acceptance_is_exact() -> None:
    chosen = chosen_speculation("ngram", TARGET, acceptance=0.4)
    assert chosen.time_factors == (1.0, 1.0)
    assert chosen.source == ""
    assert chosen_speculation("lookahead", TARGET, acceptance=0.0).speculation.method == "ngram"


def test_a_draft_model_takes_as_many_accelerators_as_its_heads_divide_among() -> None:
    draft = chosen_speculation("draft:llama-3.2-3b", TARGET).speculation.draft
    assert draft is not None
    assert draft.model.id == "llama-3.2-3b"
    assert (draft.tensor_parallel, draft.weight_dtype) == (4, "bf16")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("oracle", "not known"),
        ("draft", "not known"),
        ("eagle:llama-3.2-1b", "not known"),
        ("mtp", "no module for multi-token prediction"),
        ("ngram", "is accepted is not known"),
        ("draft:qwen3-0.6b", "vocabularies differ"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str, words: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        chosen_speculation(name, TARGET)
    assert words in f"{refused.value.what} {refused.value.why}"
    assert refused.value.fix


def test_no_usual_acceptance_beyond_the_guesses_that_were_published() -> None:
    assert usual_acceptance("eagle", 8) is not None
    assert usual_acceptance("eagle", 9) is None


def test_a_further_error_widens_in_squares_and_moves_nothing() -> None:
    plain = Quantity(10.0, 8.0, 12.0, "modelled")
    assert widened(plain, (1.0, 1.0)).low == pytest.approx(8.0)
    wide = widened(plain, (0.8, 1.25))
    assert wide.value == 10.0
    assert wide.low < 8.0
    assert wide.high > 12.0
    assert wide.low > 10.0 * 0.8 * 0.8


def test_a_row_that_names_a_method_is_predicted_with_a_wider_range() -> None:
    plain, guessed = (
        predict_row({**ROW, "spec_decode": name}, 2).metrics["tpot_ms_mean"] for name in ("none", "mtp")
    )
    assert 1.4 < plain.value / guessed.value < 2.2
    assert guessed.high / guessed.low > plain.high / plain.low
    first = [
        predict_row({**ROW, "spec_decode": name}, 2).metrics["ttft_ms_mean"]
        for name in ("mtp", "mtp3", "mtp:3")
    ]
    assert first[0] == first[1] == first[2]  # this benchmark guesses three tokens
    assert predict_row({**ROW, "spec_decode": "mtp1"}, 2).metrics["tpot_ms_mean"].value > guessed.value


def test_a_row_that_names_none_of_them_stays_unsupported() -> None:
    assert predict_row({**ROW, "spec_decode": "unknown"}, 2).status == "unsupported"
    assert predict_row({**ROW, "spec_decode": "ngram"}, 2).status == "unsupported"
