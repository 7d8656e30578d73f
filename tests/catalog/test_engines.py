"""Engine records: complete, sourced, with the defaults that engines choose, and what sources state that they run."""

import itertools
import re
import shlex
from typing import Any

import pytest

from advisor.catalog import accelerators, engines
from advisor.catalog.dtypes import DTYPES, GGUF_DTYPES
from advisor.catalog.engines import UNKNOWN, engines_on, known_things, support
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.catalog.launch import PORT, Guess, LaunchSettings, launch
from advisor.catalog.launch_options import DYNAMO_TRTLLM, ROUTERS, check_command, launch_options
from advisor.catalog.schema import Engine
from advisor.catalog.units import GIB

ALL = engines.all_engines()


def test_the_engines_are_there() -> None:
    assert set(engines.all_ids()) == {
        "vllm",
        "sglang",
        "tensorrt-llm",
        "llama.cpp",
        "mlx",
        "atom",
        "lmdeploy",
        "mindie",
        "exllamav3",
    }


@pytest.mark.parametrize("engine", ALL, ids=lambda engine: engine.id)
def test_record_is_complete_and_sourced(engine: Engine) -> None:
    assert engine.sources
    assert list(engine.cuda_graph_sizes) == sorted(set(engine.cuda_graph_sizes))
    assert engine.vendors
    assert engine.weight_dtypes
    assert set(engine.vendor_weight_dtypes) <= set(engine.vendors)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("vLLM", "vllm"),
        ("trtllm", "tensorrt-llm"),
        ("llama-cpp", "llama.cpp"),
        ("MLX", "mlx"),
        ("TabbyAPI", "exllamav3"),
    ],
)
def test_get_finds_what_people_type(typed: str, expected: str) -> None:
    assert engines.get(typed).record.id == expected


def test_every_alias_finds_its_engine() -> None:
    for engine in engines.all_engines():
        for alias in engine.aliases:
            assert engines.get(alias).record is engine


def test_unknown_engines_are_refused_with_a_hint() -> None:
    with pytest.raises(UnknownNameError) as raised:
        engines.get("vllmm")
    assert "vllm" in raised.value.hint


@pytest.mark.parametrize(
    ("memory_gib", "architecture", "usage", "num_seqs", "tokens"),
    [
        (139.8, "hopper", "server", 1024, 8192),
        (139.8, "hopper", "offline", 1024, 16384),
        (79.3, "ampere", "server", 256, 2048),
        (79.3, "ampere", "offline", 256, 8192),
        (23.5, "ada", "server", 256, 2048),
    ],
)
def test_vllm_chooses_by_memory_and_use(
    memory_gib: float, architecture: str, usage: str, num_seqs: int, tokens: int
) -> None:
    vllm = engines.get("vllm").record
    found = engines.defaults(vllm, memory_gib * GIB, architecture, usage=usage)  # type: ignore[arg-type]
    assert (found.max_num_seqs, found.max_num_batched_tokens) == (num_seqs, tokens)


def test_vllm_graph_sizes_follow_the_number_of_sequences() -> None:
    vllm = engines.get("vllm").record
    assert engines.graph_sizes(vllm, 1) == (1, 2)
    assert engines.graph_sizes(vllm, 16) == (1, 2, 4, 8, 16, 24, 32)
    assert engines.graph_sizes(vllm, 128)[-1] == 256
    assert len(engines.graph_sizes(vllm, 128)) == 35
    assert engines.graph_sizes(vllm, 1024)[-1] == 512
    assert len(engines.graph_sizes(vllm, 1024)) == 51
    # What it prints when it starts: 51 graphs up to 512, and for gpt-oss 83 up to 1024.
    assert len(engines.graph_sizes(vllm, 1024, model="gpt-oss-20b")) == 83
    assert engines.graph_sizes(vllm, 1024, model="gpt-oss-20b")[-1] == 1024


@pytest.mark.parametrize(
    ("memory_gib", "tp", "tokens", "largest_graph", "fraction"),
    [
        # reserve [MiB]: 512 + 1.5 chunk + 2 graph + 128 per accelerator, at least 10240 above 60 GiB
        (23.5, 1, 2048, 24, 1 - (512 + 3072 + 48 + 128) / (23.5 * 1024)),
        (44.0, 4, 4096, 160, 1 - (512 + 6144 + 320 + 512) / (44.0 * 1024)),
        (79.3, 1, 8192, 256, 1 - (512 + 12288 + 512 + 128) / (79.3 * 1024)),
        (139.8, 8, 8192, 512, 1 - (512 + 12288 + 1024 + 1024) / (139.8 * 1024)),
        (179.0, 1, 16384, 512, 1 - (512 + 24576 + 1024 + 128) / (179.0 * 1024)),
    ],
)
def test_sglang_sizes_its_chunk_graphs_and_memory(
    memory_gib: float, tp: int, tokens: int, largest_graph: int, fraction: float
) -> None:
    found = engines.defaults(engines.get("sglang").record, memory_gib * GIB, tp=tp)
    assert found.max_num_batched_tokens == tokens
    assert found.cuda_graph_sizes[-1] == largest_graph
    assert found.memory_fraction == pytest.approx(fraction, abs=6e-4)


def test_sglang_reserves_more_with_attention_data_parallelism() -> None:
    sglang = engines.get("sglang").record
    plain = engines.defaults(sglang, 139.8 * GIB, tp=8).memory_fraction
    assert engines.defaults(sglang, 139.8 * GIB, tp=1, dp=8).memory_fraction < plain


def test_tensorrt_llm_takes_its_fraction_of_what_is_free() -> None:
    engine = engines.get("tensorrt-llm").record
    assert engine.memory_fraction_of == "free_after_weights"
    assert engines.defaults(engine, 139.8 * GIB).memory_fraction == 0.9
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (2048, 8192)


def command(name: str, model: str = "m", **settings: Any) -> str:
    return launch(engines.get(name).record, model, LaunchSettings(**settings)).command


LAUNCHED = [engine for engine in ALL if engine.launch_template]


@pytest.mark.parametrize("engine", LAUNCHED, ids=lambda engine: engine.id)
def test_commands_are_filled_and_every_option_is_of_the_release(engine: Engine) -> None:
    flags = engine.flags
    guesses = [None, *(Guess(name, 4, "org/head") for name in (*flags.speculation, *flags.yaml_speculation))]
    formats = ["bf16", *flags.kv, *flags.yaml_kv]
    formats += ["q8_0", "q8_0/q4_0"] if flags.kv_halves else []
    adapters = [None, (50, 16, 32)] if flags.adapters or flags.yaml_adapters else [None]
    wide = {"tp": 4, "dp": 2, "ep": 8, "weight_dtype": "fp8"}
    for layout, kv, guess, loras, caches in itertools.product(
        ({}, wide), formats, guesses, adapters, (None, True, False)
    ):
        settings = LaunchSettings(
            **layout, kv_dtype=kv, guess=guess, adapters=loras, prefix_caching=caches, max_model_len=4096
        )
        started = launch(engine, "org/model", settings)
        check_command(
            engine.id, (*started.words("engine.yaml"), *shlex.split(flags.address.format(port=PORT)))
        )
        assert "org/model" in started.argv
        assert not any(re.search(r"\$|\{\w*\}", word) for word in started.argv)


def test_a_model_with_a_space_in_its_path_stays_one_word() -> None:
    assert "'/models/my model'" in command(
        "vllm", "/models/my model", guess=Guess("eagle", 4, "/heads/my head")
    )
    assert "'/heads/my head'" in command("vllm", "m", guess=Guess("eagle", 4, "/heads/my head"))


def test_the_window_of_a_head_is_opened_once_where_the_engine_refuses_a_smaller_one() -> None:
    """Source: sglang 0.5.23, configs/model_config.py, _derive_context_length."""
    head = Guess("eagle", 4, "org/head")
    option = "--json-model-override-args"
    words = command("sglang", "m", guess=head, max_model_len=16384)
    assert words.count(option) == 1
    assert """'{"max_position_embeddings": 16384}'""" in words
    scaled = (option, '{"max_position_embeddings": 16384, "rope_scaling": {}}')
    assert command("sglang", "m", guess=head, max_model_len=16384, scaling_words=scaled).count(option) == 1
    assert option not in command("sglang", "m", guess=Guess("mtp", 1), max_model_len=16384)


def test_launch_flags_say_what_differs_from_the_checkpoint() -> None:
    plain = command("vllm", tp=2)
    assert "--tensor-parallel-size 2" in plain
    assert "--quantization" not in plain
    assert "--kv-cache-dtype" not in plain
    assert "--enable-expert-parallel" not in plain
    online = command("vllm", weight_dtype="fp8", kv_dtype="fp8", ep=4)
    assert "--quantization fp8_per_tensor" in online
    assert "--quantization fp8_per_tensor" not in command("sglang", weight_dtype="fp8")
    assert "--kv-cache-dtype fp8" in online
    assert "--enable-expert-parallel" in online
    assert "--quantization" not in command("vllm", weight_dtype="fp8", checkpoint_dtype="fp8")


def test_attention_data_parallelism_is_counted_as_each_engine_counts_it() -> None:
    vllm = command("vllm", tp=1, dp=8)
    assert "--tensor-parallel-size 1" in vllm
    assert "--data-parallel-size 8" in vllm
    sglang = command("sglang", tp=1, dp=8)
    assert "--tp-size 8" in sglang
    assert "--attn-dp-size 8" in sglang


def test_options_of_a_file_are_merged() -> None:
    started = launch(
        engines.get("tensorrt-llm").record,
        "m",
        LaunchSettings(dp=2, kv_dtype="fp8", prefix_caching=False, guess=Guess("mtp", 1)),
    )
    assert started.config == {
        "kv_cache_config": {"dtype": "fp8", "enable_block_reuse": False},
        "enable_attention_dp": True,
        "speculative_config": {"decoding_type": "MTP", "max_draft_len": 1, "num_nextn_predict_layers": 1},
    }
    assert started.words("o.yaml")[-2:] == ("--extra_llm_api_options", "o.yaml")
    assert "--extra_llm_api_options <(echo " in started.command


@pytest.mark.parametrize(
    ("engine", "words", "part"),
    [
        ("vllm", ("vllm", "serve", "m", "--tensor-paralel-size", "2"), "has no option --tensor-paralel-size"),
        ("vllm", ("vllm", "serve", "m", "--max-num-seqs"), "lacks its value"),
        ("mindie", ("mindie",), "no list of mindie's options"),
    ],
)
def test_an_option_that_the_release_lacks_refuses_the_command(
    engine: str, words: tuple[str, ...], part: str
) -> None:
    with pytest.raises(AdvisorError, match=part) as refused:
        check_command(engine, words)
    assert refused.value.fix


def test_every_list_of_options_names_release_and_source() -> None:
    for engine, known in launch_options().items():
        assert engine in (*engines.all_ids(), *ROUTERS.values(), DYNAMO_TRTLLM)
        assert known.release
        assert "(" in known.source
        assert len(known.takes_value) > 15


@pytest.mark.parametrize(
    ("engine", "architecture", "what", "verdict"),
    [
        ("vllm", "blackwell", "int8", "no"),  # CUTLASS claims the layer and aborts
        ("vllm", "cdna3", "nvfp4", "emulated"),
        ("sglang", "cdna4", "nvfp4", "no"),
        ("tensorrt-llm", "ampere", "fp8", "no"),
        ("vllm", "ampere-geforce", "fp8", "emulated"),
        ("vllm", "volta", "bf16", "no"),
        ("vllm", "turing", "bf16", "no"),
        ("vllm", "turing", "fp16", "native"),
        ("sglang", "cdna3", "int4-gptq", "no"),
        ("sglang", "cdna3", "int4", "emulated"),  # awq
        ("vllm", "hopper", "mxfp4", "emulated"),
        ("vllm", "blackwell-ultra", "mxfp4", "native"),
        ("sglang", "cdna3", "mxfp4", "no"),
        ("vllm", "hopper", "kv:nvfp4", "emulated"),
        ("llama.cpp", "apple-m3", "q4_k_m", "native"),
        ("exllamav3", "ada", "exl3-4.0bpw", "native"),
        ("mlx", "apple-m4", "int4", "native"),
        ("vllm", "rubin", "bf16", "unknown"),
        ("nobody", "hopper", "bf16", "unknown"),
    ],
)
def test_verdicts(engine: str, architecture: str, what: str, verdict: str) -> None:
    assert support(engine, architecture, what).verdict == verdict


def test_every_statement_has_an_engine_an_architecture_a_version_and_a_source() -> None:
    ids = set(engines.all_ids())
    architectures = {r.architecture for r in accelerators.all_accelerators()}
    seen = 0
    for engine in ids:
        for architecture in architectures:
            for what in known_things(engine):
                one = support(engine, architecture, what)
                if one is not UNKNOWN:
                    seen += 1
                    assert one.version
                    assert one.source
    assert seen >= 1000
    assert {"vllm", "sglang", "tensorrt-llm", "llama.cpp"} <= set(engines_on("hopper"))
    assert engines_on("nothing") == ()


def test_formats_of_the_engines_records_are_not_refused_by_the_matrix() -> None:
    """A record lists formats by vendor, the matrix by architecture: it refuses some of them, no more than it did."""
    refused = set()
    for engine in engines.all_engines():
        for record in accelerators.all_accelerators():
            if record.vendor in engine.vendors:
                listed = engine.vendor_weight_dtypes.get(record.vendor, engine.weight_dtypes)
                refused |= {
                    (engine.id, record.architecture, dtype)
                    for dtype in listed
                    if dtype not in GGUF_DTYPES
                    and support(engine.id, record.architecture, dtype).verdict == "no"
                }
    assert ("vllm", "blackwell", "int8") in refused
    assert len(refused) <= 42


def test_things_are_formats_of_the_catalog_or_say_what_they_are() -> None:
    prefixes = ("kv:", "feature:")
    others = {"gguf", "exl3", "mxfp8", "fp8-block", "compressed-tensors"}
    for what in known_things():
        assert what.startswith(prefixes) or what in others or what.partition("-")[0] in (*DTYPES, "gguf"), (
            what
        )


@pytest.mark.parametrize(
    ("typed", "name", "release"),
    [
        ("vllm", "vllm", ""),
        ("vllm@0.24.0", "vllm", "0.24.0"),
        ("vllm==0.24.0rc1", "vllm", "0.24.0rc1"),
        ("SGLang = v0.5.17", "SGLang", "0.5.17"),
        ("llama.cpp@b6500", "llama.cpp", "b6500"),
        ("vllm@latest", "vllm", ""),
        ("vllm@nightly", "vllm@nightly", ""),
    ],
)
def test_a_release_is_read_from_the_name_of_an_engine(typed: str, name: str, release: str) -> None:
    assert engines.split_release(typed) == (name, release)


@pytest.mark.parametrize("name", ["llama.cpp", "mlx"])
def test_macos_gives_the_gpu_three_quarters_of_the_memory(name: str) -> None:
    assert engines.defaults(engines.by_id(name), 256 * GIB, "apple-m3").memory_fraction == 0.75
    assert engines.defaults(engines.by_id("llama.cpp"), 24 * GIB, "ada").memory_fraction == 1.0
