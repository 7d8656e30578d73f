"""Classes that engines load: every model has a verdict, versions are kept apart, and nothing unknown becomes a yes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import engines, models
from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.accelerators import by_id as accelerator
from advisor.catalog.architectures import (
    class_of,
    class_support,
    last_release_with,
    model_classes,
    needs_repository_code,
    output_of,
    writes_blocks,
)
from advisor.catalog.engines import plans_on
from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.config import known_types, model_from_hf_config
from advisor.decide.engine_classes import check_classes
from advisor.decide.reason import NoAnswerError

Cli = Callable[[str], Any]
DECODERS = [model for model in models.all_models() if model.workload == "decoder"]
RANKED = {name for chip in all_accelerators() if chip.is_ranked for name in chip.engines}


def verdict(engine: str, model: str, version: str = "") -> str:
    return class_support(engines.by_id(engine), models.by_id(model), version=version).verdict


def test_every_engine_that_is_planned_with_has_a_verdict_with_a_source() -> None:
    for model in DECODERS:
        for name in sorted(RANKED):
            found = class_support(engines.by_id(name), model)
            assert found.verdict != "unknown" or found.note
            assert found.source or not class_of(model)
            assert found.version or not class_of(model)


def test_every_type_that_is_read_has_a_class_and_a_verdict_of_the_larger_engines() -> None:
    for name in known_types():
        assert model_classes()[name].architecture, name


@pytest.mark.parametrize(
    ("engine", "model", "expected"),
    [
        ("tensorrt-llm", "gemma-2-9b", "no"),
        ("vllm", "gemma-2-9b", "native"),
        ("vllm", "falcon-40b", "native"),
        ("tensorrt-llm", "falcon-40b", "no"),
        ("sglang", "bloom-7b1", "no"),
        ("vllm", "mpt-7b", "no"),
        ("llama.cpp", "mpt-7b", "native"),
        ("tensorrt-llm", "gpt-j-6b", "no"),
        ("llama.cpp", "gpt-j-6b", "no"),
        ("vllm", "phi-2", "transformers"),
        ("sglang", "phi-2", "native"),
        ("vllm", "rwkv7-2.9b", "no"),
        ("llama.cpp", "rwkv7-2.9b", "native"),
        ("vllm", "gla-1.3b", "no"),
        ("mlx", "retnet-6.7b", "no"),
        ("vllm", "mamba2-2.7b", "no"),
        ("llama.cpp", "mamba2-2.7b", "native"),
        ("tensorrt-llm", "smollm3-3b", "no"),
        ("tensorrt-llm", "granite-4.0-h-small", "no"),
        ("vllm", "granite-4.0-h-small", "native"),
        ("vllm", "megatron-22b", "no"),
        ("exllamav3", "llama-3.1-8b", "native"),
        ("exllamav3", "gpt-j-6b", "no"),
    ],
)
def test_less_usual_models_have_the_verdict_of_the_released_code(
    engine: str, model: str, expected: str
) -> None:
    assert verdict(engine, model) == expected


@pytest.mark.parametrize(
    ("engine", "model", "version", "expected"),
    [
        ("vllm", "gemma-4-31b", "0.12.0", "no"),
        ("vllm", "internlm-7b", "0.22.0", "native"),
        ("vllm", "internlm-7b", "0.23.0", "native"),
        ("vllm", "internlm-7b", "0.25.0", "no"),
        ("vllm", "mpt-7b", "0.28.0", "native"),
        ("vllm", "mpt-7b", "0.33.0", "no"),
        ("vllm", "gemma-4-31b", "0.18.0", "no"),
        ("vllm", "gemma-4-31b", "0.19.0", "native"),
        ("sglang", "mimo-v2-flash", "0.5.8", "native"),
        ("vllm", "gemma-4-31b", "0.24.0", "native"),
        ("vllm", "mpt-7b", "0.26.0", "native"),
        ("vllm", "mpt-7b", "0.30.0", "no"),
        ("vllm", "llama-3.1-8b", "0.4.0", "unknown"),
        ("mlx", "rwkv7-2.9b", "0.28.4", "no"),
        ("sglang", "qwen3.5-27b", "0.5.1", "no"),
    ],
)
def test_a_release_has_its_own_verdict(engine: str, model: str, version: str, expected: str) -> None:
    assert verdict(engine, model, version) == expected


def test_a_plug_in_does_not_inherit_the_list_of_its_engine() -> None:
    vllm = engines.by_id("vllm")
    bloom = models.by_id("bloom-7b1")
    assert class_support(vllm, bloom, accelerator("gaudi3")).verdict != "native"
    assert class_support(vllm, bloom, accelerator("ascend-910b")).verdict == "unknown"
    assert class_support(vllm, bloom, accelerator("h100-sxm")).verdict == "native"


def config(folder: Path, **changed: object) -> Path:
    values = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    }
    path = folder / "config.json"
    path.write_text(
        json.dumps({name: value for name, value in (values | changed).items() if value is not None})
    )
    return path


@pytest.mark.parametrize(
    ("named", "model_type", "expected"),
    [
        (["LlamaForCausalLM"], "llama", "LlamaForCausalLM"),
        (None, "llama", "LlamaForCausalLM"),
        ([], "mistral", "MistralForCausalLM"),
        (["MyOwnForCausalLM"], "llama", "MyOwnForCausalLM"),
    ],
)
def test_the_class_of_a_file_is_what_it_names_else_that_of_its_type(
    named: list[str] | None, model_type: str, expected: str, tmp_path: Path
) -> None:
    model = model_from_hf_config(config(tmp_path, architectures=named, model_type=model_type))
    assert class_of(model) == expected
    is_own = expected.startswith("MyOwn")
    assert class_support(engines.by_id("vllm"), model).verdict == ("unknown" if is_own else "native")
    for whole_list in ("llama.cpp", "lmdeploy", "tensorrt-llm"):
        found = class_support(engines.by_id(whole_list), model)
        assert found.verdict == ("no" if is_own else "native")
        assert found.version
        assert found.source
    assert class_support(engines.by_id("mlx"), model).verdict == "native"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("InternS1ForConditionalGeneration", "vllm sglang lmdeploy"),
        ("KeyeVL1_5ForConditionalGeneration", "vllm"),
        ("Exaone4_5_ForConditionalGeneration", "vllm tensorrt-llm llama.cpp"),
        ("SDARForCausalLM", "sglang lmdeploy"),
        ("HYV3ForCausalLM", "vllm sglang llama.cpp lmdeploy"),
        ("MistralLarge3ForCausalLM", "vllm sglang tensorrt-llm"),
        ("JAISLMHeadModel", "llama.cpp"),
    ],
)
def test_a_class_of_a_type_that_is_not_read_has_the_verdict_of_the_registries(
    named: str, expected: str, tmp_path: Path
) -> None:
    text = json.loads(config(tmp_path).read_text()) | {"model_type": "qwen3"}
    path = config(tmp_path, model_type="of_its_own", architectures=[named], text_config=text)
    model = model_from_hf_config(path)
    names = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "lmdeploy")
    able = [name for name in names if class_support(engines.by_id(name), model).is_known]
    assert able == expected.split()


@pytest.mark.parametrize(
    ("named", "engine", "version", "expected"),
    [
        ("InternS1ForConditionalGeneration", "vllm", "0.10.2", "native"),
        ("HYV3ForCausalLM", "vllm", "0.16.0", "no"),
        ("HYV3ForCausalLM", "vllm", "0.20.2", "native"),
        ("ExaoneMoEForCausalLM", "sglang", "0.5.6", "no"),
        ("ExaoneMoEForCausalLM", "sglang", "0.5.12", "native"),
        ("JAISLMHeadModel", "vllm", "0.16.0", "native"),
        ("JAISLMHeadModel", "vllm", "0.24.0", "no"),
        ("Glm5NextForCausalLM", "vllm", "0.27.1", "no"),
    ],
)
def test_a_release_has_the_classes_of_its_own_registry(
    named: str, engine: str, version: str, expected: str, tmp_path: Path
) -> None:
    model = model_from_hf_config(config(tmp_path, architectures=[named]))
    assert class_support(engines.by_id(engine), model, version=version).verdict == expected


def test_parts_of_a_class_may_come_later_than_the_class() -> None:
    for name, engine, releases in (
        ("nemotron-3-nano-30b-a3b", "sglang", ("0.5.5", "0.5.6")),
        ("nemotron-3-super-120b-a12b", "sglang", ("0.5.7", "0.5.8")),
        ("nemotron-nano-9b-v2", "sglang", ("0.5.3", "0.5.5")),
        ("nemotron-3-super-120b-a12b", "vllm", ("0.12.0", "0.13.0")),
    ):
        before, after = (
            class_support(engines.by_id(engine), models.by_id(name), version=release) for release in releases
        )
        assert (before.verdict, after.verdict) == ("no", "native")
    older = class_support(engines.by_id("vllm"), models.by_id("smollm3-3b"), version="0.9.1")
    assert older.verdict == "unknown"


def test_a_type_in_no_list_needs_the_code_that_its_file_names(tmp_path: Path) -> None:
    text = json.loads(config(tmp_path).read_text()) | {"model_type": "qwen3"}
    for map_, needs in (({"AutoConfig": "configuration.Own"}, True), ({}, False), (None, False)):
        path = config(tmp_path, model_type="of_its_own", text_config=text, auto_map=map_)
        assert needs_repository_code(model_from_hf_config(path), "vllm") == needs
    known = config(tmp_path, auto_map={"AutoConfig": "configuration.Own"})
    assert not needs_repository_code(model_from_hf_config(known), "vllm")
    known.with_name("tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["own.Own", null]}}')
    assert needs_repository_code(model_from_hf_config(known), "vllm")


def test_an_encoder_decoder_runs_only_with_a_class_of_the_engine(tmp_path: Path) -> None:
    values = {"d_model": 512, "num_layers": 6, "num_heads": 8, "d_kv": 64, "d_ff": 2048, "vocab_size": 32128}
    for family in ("t5", "mt5", "umt5"):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values | {"model_type": family, "is_encoder_decoder": True}))
        model = model_from_hf_config(path)
        for engine in engines.all_engines():
            found = class_support(engine, model)
            assert found.verdict == ("native" if (engine.id, family) == ("tensorrt-llm", "t5") else "no")
    path.write_text(json.dumps(values | {"model_type": "marian", "is_encoder_decoder": True}))
    with pytest.raises(InputFileError, match="encoder-decoder that is not known"):
        model_from_hf_config(path)


def test_every_published_model_has_a_row_that_says_whose_code_reads_it() -> None:
    for model in models.all_models():
        if model.hf_ids and model.workload == "decoder":
            assert model.family in model_classes(), model.id
    for name, engine, needs in (
        ("phi-3-small", "sglang", True),
        ("phi-3-small", "mlx", True),
        ("step-3", "vllm", False),
        ("qwen3-8b", "mlx", False),
        ("minicpm-2b", "mlx", False),
    ):
        assert needs_repository_code(models.by_id(name), engine) == needs, (name, engine)


def test_what_writes_no_tokens_one_by_one_is_told_apart(tmp_path: Path) -> None:
    assert output_of(models.by_id("llada2.1-mini")) == "blocks"
    assert output_of(models.by_id("llama-3.1-8b")) == "tokens"
    for name in ("LlamaForSequenceClassification", "Qwen2ForRewardModel", "Qwen2ForProcessRewardModel"):
        judge = model_from_hf_config(config(tmp_path, architectures=[name]))
        assert output_of(judge) == "nothing"


def test_repository_code_is_needed_where_no_program_knows_the_configuration() -> None:
    assert needs_repository_code(models.by_id("kimi-k2"), "vllm")
    assert needs_repository_code(models.by_id("minicpm-2b"), "sglang")
    assert needs_repository_code(models.by_id("moonlight-16b-a3b"), "vllm")
    assert not needs_repository_code(models.by_id("grok-2"), "sglang")
    assert not needs_repository_code(models.by_id("deepseek-v3"), "vllm")
    assert not needs_repository_code(models.by_id("qwen3-32b"), "sglang")


@pytest.mark.parametrize("command", ["recommend", "cost"])
def test_a_class_that_no_engine_has_is_refused(cli: Cli, command: str) -> None:
    run = cli(f"advisor {command} --model gla-1.3b --rate 1")
    assert run.code == 3
    assert "vLLM 0.33.0 does not load class GLAForCausalLM" in run.err
    assert "To fix: another --model" in run.err


def test_block_diffusion_is_not_priced_as_serving(cli: Cli) -> None:
    run = cli("advisor recommend --model llada2.1-mini --rate 1")
    assert run.code != 0
    assert "by diffusion" in run.err


@pytest.mark.parametrize("model_type", ["qwen3", "llama", "qwen2"])
@pytest.mark.parametrize(
    "name",
    ["SDARForCausalLM", "SDARMoeForCausalLM", "LLaDAModelLM", "DreamModel", "Fast_dLLM_QwenForCausalLM"],
)
def test_the_class_says_that_a_model_writes_blocks_whatever_its_type(
    tmp_path: Path, name: str, model_type: str
) -> None:
    assert (
        output_of(model_from_hf_config(config(tmp_path, model_type=model_type, architectures=[name])))
        == "blocks"
    )


def test_no_class_of_the_catalogue_writes_blocks_but_that_of_llada() -> None:
    assert {class_of(one) for one in models.all_models() if output_of(one) == "blocks"} == {
        "LLaDA2MoeModelLM"
    }
    assert not writes_blocks("Moondream3ForCausalLM")


@pytest.mark.parametrize(
    "name", ["Phi3SmallForCausalLM", "SDARForCausalLM", "DreamModel", "MadeUpForCausalLM"]
)
def test_engines_are_listed_for_a_class_whose_layers_are_not_read(
    tmp_path: Path, cli: Cli, name: str
) -> None:
    path = config(tmp_path, model_type="of-no-list", architectures=[name])
    asked = cli(f"advisor catalog engines --model {path} --json")
    assert asked.code == 0
    result = json.loads(asked.out)
    assert result["architecture"] == name
    assert result["output"] == ("blocks" if writes_blocks(name) else "tokens")
    with pytest.raises(InputFileError) as refused:
        models.get(str(path))
    says_blocks = "writes blocks of tokens by diffusion" in str(refused.value)
    assert says_blocks == writes_blocks(name) == ("catalog engines" not in refused.value.fix)


def test_a_file_without_class_and_known_type_is_refused_without_the_list_of_engines(
    tmp_path: Path, cli: Cli
) -> None:
    asked = cli(
        f"advisor catalog engines --model {config(tmp_path, model_type='of-no-list', architectures=None)}"
    )
    assert asked.code == 2
    assert "catalog engines" not in asked.err


def test_an_engine_older_than_the_model_is_refused_with_the_release_that_has_it(cli: Cli) -> None:
    run = cli("advisor recommend --model gemma-4-31b --rate 1 --engine vllm@0.12.0")
    assert run.code == 3
    assert "vLLM 0.12.0 does not start gemma-4-31b" in run.err
    assert "0.33.0 has the class" in run.err


@pytest.mark.parametrize("release", ["0.24.0", "0.28.0"])
def test_an_earlier_release_that_has_the_class_is_planned(cli: Cli, release: str) -> None:
    run = cli(f"advisor recommend --model mpt-7b --rate 1 --gpu h100-sxm --engine vllm@{release} --fast")
    assert run.code == 0
    assert "vllm serve mosaicml/mpt-7b-instruct" in run.out


def test_a_simulation_of_an_earlier_release_with_the_class_is_no_what_if(cli: Cli) -> None:
    run = cli(
        "advisor simulate serve --model mpt-7b --gpu h100-sxm --engine vllm@0.28.0 --rate 1 --requests 50"
    )
    assert run.code == 0
    assert "what-if" not in run.err


def test_a_simulation_of_what_cannot_start_says_so(cli: Cli) -> None:
    run = cli("advisor simulate serve --model gla-1.3b --gpu h100-sxm --rate 0.5 --requests 50")
    assert run.code == 0
    assert "does not load class GLAForCausalLM; what follows is a what-if" in run.err


def test_a_workstation_is_not_planned_for_a_class_without_an_engine(cli: Cli) -> None:
    run = cli("advisor build --model gla-1.3b --budget 5000")
    assert run.code == 3
    assert "no engine of a workstation starts gla-1.3b" in run.err


def test_the_table_of_one_model_names_release_and_verdict(cli: Cli) -> None:
    run = cli("advisor catalog engines --model smollm3-3b --json")
    rows = {row["engine"]: row for row in json.loads(run.out)["engines"]}
    assert rows["tensorrt-llm"]["verdict"] == "no"
    assert rows["vllm"] == rows["vllm"] | {"verdict": "transformers", "version": "0.33.0"}
    assert all(row["source"] for row in rows.values() if row["verdict"] != "unknown")


def test_a_class_that_came_out_of_an_engine_has_a_last_release_with_it() -> None:
    engine = engines.by_id("vllm")
    for name in ("grok-1", "mpt-7b", "baichuan2-7b"):
        model = models.by_id(name)
        last = last_release_with(engine, model)
        assert class_support(engine, model).is_refused
        assert class_support(engine, model, version=last).is_known


@pytest.mark.parametrize("chip", ["l40s", "m4-max-40-core", "h100-sxm"])
@pytest.mark.parametrize(("engine", "model"), [("lmdeploy", "smollm3-3b"), ("vllm", "grok-1")])
def test_the_way_out_of_a_refused_class_runs_on_what_was_asked(engine: str, model: str, chip: str) -> None:
    asked = accelerator(chip)
    with pytest.raises(NoAnswerError) as refused:
        check_classes(models.by_id(model), (engines.by_id(engine),), (asked,))
    for name in refused.value.fix.removeprefix("--engine ").split(" or "):
        other, _, release = name.partition("@")
        assert release or plans_on(engines.by_id(other), asked)
        assert not class_support(engines.by_id(other), models.by_id(model), version=release).is_refused
