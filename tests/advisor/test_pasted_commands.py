"""Start commands of engines pasted behind a command: the deployment that they start is the one that is computed."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.cli.engine_command import with_pasted_command
from advisor.cli.engine_words import own_words

Cli = Callable[[str], Any]
KNOWN = frozenset(
    shlex.split(
        "--model --gpu --tp --pp --dp --ep --engine --precision --kv-precision --context --concurrency --seed "
        "--max-num-seqs --max-num-batched-tokens --gpu-memory-utilization --enable-dp-attention --block-size "
        "--kv-cache-bytes"
    )
)


def understand(command: str) -> dict[str, str]:
    words, _ = with_pasted_command(["--gpu", "h100-sxm", *shlex.split(command)], KNOWN)
    names = [place for place, word in enumerate(words) if word.startswith("--")]
    return {
        words[at]: " ".join(words[at + 1 : end])
        for at, end in zip(names, [*names[1:], len(words)], strict=True)
    }


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        *(
            ("32k", 32_000),
            ("32K", 32_768),
            ("25.6k", 25_600),
            ("1m", 10**6),
            ("1M", 2**20),
            ("2g", 2 * 10**9),
        ),
        *(("2G", 2 * 2**30), ("1t", 10**12), ("1T", 2**40), ("4096", 4096)),
    ],
)
def test_large_integers_are_read_as_vllm_reads_them(typed: str, number: int, tmp_path: Path) -> None:
    """Source: vLLM, vllm/utils/argparse_utils.py, human_readable_int."""
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services: {a: {image: 'vllm/vllm-openai:latest', command: "
        f"'--model x/y --max-model-len {typed} --kv-cache-memory-bytes {typed}'}}}}"
    )
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"model: x/y\nmax-model-len: {typed}\nkv_cache_memory_bytes: {typed}\n")
    options = f"--max-model-len {typed} --kv-cache-memory={typed}"
    for command in (f"vllm serve x/y {options}", str(compose), str(settings)):
        said = understand(command)
        assert said["--context"] == str(number)
        assert said["--kv-cache-bytes"] == f"{number}B"
    assert own_words(shlex.split(options), KNOWN) == [
        *("--context", str(number)),
        f"--kv-cache-bytes={number}B",
    ]


@pytest.mark.parametrize(
    "head",
    [
        "MODEL=x/y; TP=4; LEN=16384\n",
        "export MODEL=x/y TP=4 LEN=16384\n",
        "MODEL=x/y && TP=4 && LEN=16384  # layout\n",
        "export MODEL=x/y; export TP=4; LEN=16384 && ",
        "MODEL='x/y'\nTP=4; LEN=16384;\n",
    ],
)
def test_variables_of_one_line_count_as_those_of_several(head: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"{head}vllm serve $MODEL --tensor-parallel-size $TP --max-model-len $LEN\n")
    said = understand(str(script))
    assert (said["--model"], said["--tp"], said["--context"]) == ("x/y", "4", "16384")


@pytest.mark.parametrize(
    "text",
    [
        "N=$(nvidia-smi -L | wc -l)\nvllm serve x/y --tensor-parallel-size $N\n",
        "import torch\nfrom vllm import LLM\nLLM('x/y', tensor_parallel_size=torch.cuda.device_count())\n",
    ],
)
def test_a_number_of_accelerators_that_only_running_would_tell_is_asked_for(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / ("run.sh" if text.startswith("N") else "run.py")
    file.write_text(text)
    with pytest.raises(AdvisorError, match="whose number nothing says") as raised:
        understand(str(file))
    assert raised.value.fix.startswith("--tp N")
    words, _ = with_pasted_command(["--tp", "4", str(file)], KNOWN)
    assert words[words.index("--tp") + 1] == "4"


def test_a_size_that_python_computes_is_its_value(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "from vllm import LLM\n"
        "llm = LLM('x/y', kv_cache_memory_bytes=20 * 1024**3, max_model_len=1 << 15, max_num_batched_tokens=int(8e3))\n"
    )
    said = understand(str(script))
    assert said["--kv-cache-bytes"] == f"{20 * 1024**3}B"
    assert (said["--context"], said["--max-num-batched-tokens"]) == ("32768", "8000")


def test_a_power_of_two_has_no_fraction() -> None:
    with pytest.raises(AdvisorError, match="no fraction in front of K") as raised:
        understand("vllm serve x/y --max-model-len 1.5K")
    assert raised.value.fix == "--max-model-len 1.5k"


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve x/y --max-model-len -1",
        "vllm serve x/y --max-model-len=auto",
        "python -m sglang.launch_server --model x/y --chunked-prefill-size -1",
    ],
)
def test_a_number_that_is_left_to_the_engine_is_named_and_not_planned(command: str) -> None:
    words, notes = with_pasted_command(shlex.split(command), KNOWN)
    assert not {"--context", "--max-num-batched-tokens", "-1", "auto"} & set(words)
    assert [note for note in notes if "not part of the plan" in note]
    assert not [note for note in notes if "has no option" in note]


@pytest.mark.parametrize("own", ["-o a.html", "--rate 3", "--json", "--gpu=l40s", "--json --rate 2"])
@pytest.mark.parametrize("engine", ["vllm serve x/y", "python3 -m sglang.launch_server --model-path x/y"])
def test_options_that_no_engine_has_are_the_own_ones_wherever_they_stand(engine: str, own: str) -> None:
    known = KNOWN | {"-o", "--rate", "--json"}
    settings = "--dtype auto --host 0.0.0.0"
    for behind in (f"{engine} {own} {settings}", f"{engine} {settings} {own}"):
        words, notes = with_pasted_command(shlex.split(behind), known, {"--json"})
        before, _ = with_pasted_command(shlex.split(f"{own} {engine} {settings}"), known, {"--json"})
        assert words == before
        assert not [note for note in notes if "has no option" in note]


@pytest.mark.parametrize(
    ("command", "means"),
    [
        (
            "vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len 32k "
            "--gpu-memory-utilization=0.95 --port 8000",
            {
                "--model": "Qwen/Qwen3-32B",
                "--tp": "2",
                "--context": "32000",
                "--gpu-memory-utilization": "0.95",
            },
        ),
        (
            "python3 -m sglang.launch_server --model-path x/y --tp 8 --dp 8 --enable-dp-attention "
            "--mem-fraction-static 0.88",
            {
                "--model": "x/y",
                "--tp": "8",
                "--dp": "8",
                "--enable-dp-attention": "",
                "--gpu-memory-utilization": "0.88",
            },
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1 trtllm-serve x/y --tp_size 2 --max_batch_size 64 --max_num_tokens 4096 "
            "--backend pytorch",
            {"--model": "x/y", "--tp": "2", "--max-num-seqs": "64", "--max-num-batched-tokens": "4096"},
        ),
        (
            "/opt/llama.cpp/llama-server -hf x/y-GGUF:Q4_K_M -ngl 99 -c 32768 -np 4 -fa on -ctk q8_0 -ctv q8_0",
            {
                "--model": "x/y-GGUF:Q4_K_M",
                "--context": "8192",
                "--max-num-seqs": "4",
                "--concurrency": "4",
                "--kv-precision": "q8_0",
            },
        ),
        (
            "vllm serve x/y --quantization compressed-tensors --seed 7 --served-model-name a b",
            {"--model": "x/y"},
        ),
        (
            "vllm serve x/y --kv-cache-dtype fp8_e4m3 -tp 4",
            {"--model": "x/y", "--kv-precision": "fp8", "--tp": "4"},
        ),
    ],
)
def test_a_pasted_command_is_the_options_that_it_states(command: str, means: dict[str, str]) -> None:
    engine = {"v": "vllm", "p": "sglang", "C": "tensorrt-llm", "/": "llama.cpp"}[command[0]]
    assert understand(command) == {"--gpu": "h100-sxm", **means, "--engine": engine}
    assert understand(shlex.quote(command)) == understand(command)


@pytest.mark.parametrize(
    ("launcher", "release"),
    [
        ("docker run --gpus all -e HF_TOKEN=x -p 8000:8000 vllm/vllm-openai:v0.10.2 --model x/y", "0.10.2"),
        ("sudo docker run --runtime nvidia -d --name v vllm/vllm-openai:latest --model x/y", ""),
        ("podman run --device nvidia.com/gpu=all rocm/vllm:latest vllm serve x/y", ""),
        ("uv run --with vllm vllm serve x/y", ""),
        ("A=1 nohup vllm serve /models/y", ""),
        ("numactl --cpunodebind 0 vllm serve /root/.cache/huggingface/hub/models--x--y/snapshots/abc", ""),
    ],
)
def test_what_launches_an_engine_says_nothing_about_the_plan(launcher: str, release: str) -> None:
    known = KNOWN | {"--engine-version"}
    for typed in (shlex.split(launcher), [launcher]):
        words, _ = with_pasted_command(
            ["--gpu", "h100-sxm", *typed, *([] if len(typed) == 1 else ["-tp", "2"])], known
        )
        said = dict(zip(words[::2], words[1::2], strict=True))
        assert said.pop("--engine") == "vllm"
        assert said.pop("--model") in ("x/y", "y")
        assert said.pop("--engine-version", "") == release
        assert said in ({"--gpu": "h100-sxm"}, {"--gpu": "h100-sxm", "--tp": "2"})
    words, _ = with_pasted_command(["--title", "how vllm serve works"], known)
    assert words == ["--title", "how vllm serve works"]


@pytest.mark.parametrize(
    "command", ["vllm serve x/y -O3", "mlx_lm.generate --model x/y --prompt hi --max-tokens 5"]
)
def test_options_that_exist_are_not_called_unknown(command: str) -> None:
    _, notes = with_pasted_command(shlex.split(command), KNOWN)
    assert len(notes) == 1


def test_slots_of_ollama_have_the_whole_context_each() -> None:
    said = understand(
        "OLLAMA_NUM_PARALLEL=4 OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_CONTEXT_LENGTH=8192 ollama run qwen3:8b"
    )
    assert (said["--context"], said["--concurrency"], said["--kv-precision"]) == ("8192", "4", "q8_0")
    assert (said["--engine"], said["--model"]) == ("llama.cpp", "qwen3:8b")


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("ollama run llama3", "llama3:latest"),
        ("ollama pull mistral:7b", "mistral:7b"),
        ("ollama run hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M"),
        ("llama-server -m Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M.gguf"),
    ],
)
def test_a_name_of_ollamas_library_without_a_tag_means_its_default(command: str, model: str) -> None:
    assert understand(command)["--model"] == model


@pytest.mark.parametrize(
    ("command", "precision"),
    [
        ("lms load qwen3-14b", "q4_k_m"),
        ("lms load mistralai/mistral-7b-instruct-v0.3 --gpu 0.5", "q4_k_m"),
        ("lms load qwen3-14b@q6_k", "q6_k"),
        ("lms load openai/gpt-oss-120b", None),
        ("lms load lmstudio-community/Qwen3-14B-GGUF", None),
        ("llama-server -hf Qwen/Qwen3-14B", None),
    ],
)
def test_a_key_of_lm_studio_means_a_quantised_file_unless_it_states_another(
    command: str, precision: str | None
) -> None:
    assert understand(command).get("--precision") == precision


@pytest.mark.parametrize(
    ("command", "has_towers"),
    [
        ("llama-server -m gemma-3-27b-it-Q4_K_M.gguf", False),
        ("llama-server -m gemma-3-27b-it-Q4_K_M.gguf --mmproj mmproj-F16.gguf", True),
        ("llama-server -hf ggml-org/gemma-3-27b-it-GGUF:Q4_K_M", True),
        ("llama-server -hf ggml-org/gemma-3-27b-it-GGUF:Q4_K_M --no-mmproj", False),
        ("vllm serve google/gemma-3-27b-it", True),
        ("vllm serve google/gemma-3-27b-it --language-model-only", False),
        ("ollama run gemma3:27b", True),
        ("koboldcpp --model gemma-3-27b-it-Q4_K_M.gguf", False),
    ],
)
def test_towers_count_where_the_command_loads_them(cli: Cli, command: str, has_towers: bool) -> None:
    found = cli(f"advisor memory --gpu h100-sxm --json {command}")
    assert bool(json.loads(found.out)["per_accelerator"]["vision_bytes"]) == has_towers
    assert "mmproj" not in found.err


def test_a_context_of_zero_is_the_whole_one_and_a_split_counts_cards() -> None:
    said = understand("llama-server -m ./Qwen3-8B-Q4_K_M.gguf -c 0 -ts 1,1,1")
    assert (said["--context"], said["--pp"]) == ("40960", "3")


def test_what_is_typed_in_front_counts_before_the_pasted_command() -> None:
    words, _ = with_pasted_command(
        ["--model", "a/b", "--tp", "4", *shlex.split("vllm serve x/y -tp 2")], KNOWN
    )
    assert words == ["--model", "a/b", "--tp", "4", "--engine", "vllm"]


def test_what_says_nothing_about_the_plan_is_named_and_a_slip_is_told() -> None:
    _, notes = with_pasted_command(shlex.split("vllm serve x/y --port 8000 --enable-expert-paralel"), KNOWN)
    assert "--port" in notes[0]
    assert "--enable-expert-parallel" in notes[1]
    assert with_pasted_command(["--model", "vllm"], KNOWN) == (["--model", "vllm"], ())


def test_a_pasted_command_is_answered_as_its_options(cli: Cli) -> None:
    pasted = cli(
        "advisor memory --gpu h100-sxm --json vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len 32768"
    )
    typed = cli(
        "advisor memory --gpu h100-sxm --json --engine vllm --model Qwen/Qwen3-32B --tp 2 --context 32768"
    )
    assert json.loads(pasted.out) == json.loads(typed.out)
    assert cli("advisor cost --model 8b --rate 1 vllm serve x/y").code == 2
    replayed = cli(
        "advisor simulate serve --gpu h100-sxm --concurrency 2 --input-tokens 100 --output-tokens 10 --requests 4 "
        "--json vllm serve Qwen/Qwen3-8B --swap-space 16"
    )
    assert replayed.code == 0, replayed.err


VLLM = "vllm serve x/y --tensor-parallel-size 2 --max-model-len 16384"
CONTAINERS = {
    "text": f"services: {{v: {{image: other, command: '{VLLM}'}}}}",
    "shell": f"spec: {{containers: [{{command: [/bin/bash, -lc], args: ['exec {VLLM}']}}]}}",
    "image": "spec: {containers: [{image: 'vllm/vllm-openai:latest', "
    "args: [--model, x/y, --tensor-parallel-size=2, --max-model-len, '16384']}]}",
    "default": f"services: {{v: {{command: '{VLLM.replace('16384', '${LENGTH:-16384}')}'}}}}",
    "second document": f"kind: Service\n---\nspec: {{containers: [{{command: {VLLM.split()}}}]}}",
    "macro": f"macros: {{start: '{VLLM}'}}\nmodels: {{a: {{cmd: '${{start}} --port ${{PORT}}'}}}}",
}


@pytest.mark.parametrize("form", CONTAINERS)
def test_a_file_of_containers_is_the_command_that_it_starts(form: str, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(CONTAINERS[form])
    assert understand(str(file)) == understand(VLLM)


def test_scripts_modelfiles_and_files_of_options_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    over_lines = VLLM.replace(" --", " \\\n  --")
    Path("serve.sh").write_text(f"#!/bin/bash\nexport A=1\n# vllm serve a/b\n{over_lines}\n")
    assert understand("serve.sh") == understand(VLLM)
    Path("options.yaml").write_text(
        "model: x/y\ntensor_parallel_size: 4\nmax-model-len: 16384\nstream: false\n"
    )
    assert understand("vllm serve --config options.yaml --tensor-parallel-size 2") == understand(VLLM)
    Path("Modelfile").write_text("FROM qwen3:8b\nPARAMETER num_ctx 8192\nSYSTEM be brief\n")
    assert understand("Modelfile") == understand("OLLAMA_CONTEXT_LENGTH=8192 ollama run qwen3:8b")
    Path("two.yaml").write_text("models: {a: {cmd: vllm serve x/y}, b: {cmd: vllm serve a/b}}")
    words, notes = with_pasted_command(["two.yaml"], KNOWN)
    assert words == ["--model", "x/y", "--engine", "vllm"]
    assert "the first of 2" in notes[0]
    assert with_pasted_command(["--price-file", "two.yaml"], KNOWN)[0] == ["--price-file", "two.yaml"]


@pytest.mark.parametrize(
    ("command", "like"),
    [
        (
            "python koboldcpp.py --model y.gguf --contextsize 8192 --quantkv 1 --usecublas",
            "llama-server -m y.gguf -c 8192 -ctk q8_0 -ctv q8_0",
        ),
        ("./llamafile --server -m y.gguf -c 8192", "llama-server -m y.gguf -c 8192"),
        ("aphrodite run x/y -tp 2", "vllm serve x/y -tp 2"),
        ("python3 -m dynamo.sglang --model-path x/y --tp 2", "sglang serve --model-path x/y --tp 2"),
    ],
)
def test_a_relative_of_an_engine_is_planned_as_that_engine(command: str, like: str) -> None:
    assert understand(command) == understand(like)


def test_an_engine_that_is_not_known_names_the_way_out() -> None:
    pasted = "text-generation-launcher --model-id x/y --num-shard 2 --quantize fp8"
    with pytest.raises(AdvisorError, match="tgi") as refused:
        understand(pasted)
    assert "--engine vllm" in refused.value.fix
    assert understand(f"--engine vllm {pasted}") == {
        "--gpu": "h100-sxm",
        "--engine": "vllm",
        "--model": "x/y",
        "--tp": "2",
        "--precision": "fp8",
    }


def test_an_accelerator_behind_a_pasted_command_is_this_programs() -> None:
    words, _ = with_pasted_command(shlex.split("vllm serve x/y -tp 2 --gpu l40s"), KNOWN)
    assert words[words.index("--gpu") + 1] == "l40s"


@pytest.mark.parametrize(
    ("typed", "cache"),
    [
        ("-ctk q8_0", "q8_0/fp16"),
        ("--cache-type-v q4_0", "fp16/q4_0"),
        ("-ctk q8_0 -ctv q4_0", "q8_0/q4_0"),
        ("--cache-type-k iq4_nl --cache-type-v iq4_nl", "iq4_nl"),
        ("-ctk f16 -ctv f16", "fp16"),
        ("-fa off -ctk q5_1", "q5_1/fp16"),
    ],
)
def test_keys_and_values_of_a_cache_have_formats_of_their_own(typed: str, cache: str) -> None:
    """The half that is not named keeps 16 bits (ggml-org/llama.cpp, tools/server/README.md)."""
    words, notes = with_pasted_command([f"llama-server -m y.gguf {typed}"], KNOWN)
    assert words[words.index("--kv-precision") + 1] == cache
    assert not any("-ct" in note or "cache-type" in note for note in notes)


def test_quantised_values_need_flash_attention() -> None:
    with pytest.raises(AdvisorError, match="without flash attention"):
        with_pasted_command(["llama-server -m y.gguf -fa off -ctv q8_0"], KNOWN)
    with_pasted_command(["llama-server -m y.gguf -fa on -ctv q8_0"], KNOWN)


GUESSES = frozenset((*KNOWN, "--speculative", "--draft-tokens", "--draft-branches"))


@pytest.mark.parametrize(
    ("command", "means"),
    [
        (
            "vllm serve x/y --speculative-config "
            """'{"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3}'""",
            "eagle 3",
        ),
        (
            "vllm serve x/y --speculative-config.method mtp --speculative-config.num_speculative_tokens 2",
            "mtp 2",
        ),
        (
            """vllm serve x/y --speculative_config='{"method":"deepseek_mtp","num_speculative_tokens":1}'""",
            "mtp 1",
        ),
        ("vllm serve x/y --spec-method ngram --spec-tokens 5", "ngram 5"),
        ("vllm serve x/y --speculative-model '[ngram]' --num-speculative-tokens 4", "ngram 4"),
        (
            "vllm serve x/y --speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5",
            "draft:meta-llama/Llama-3.2-1B-Instruct 5",
        ),
        (
            "python -m sglang.launch_server --model-path x/y --speculative-algorithm EAGLE --speculative-num-steps 3 "
            "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
            "mtp 3",
        ),
        (
            "python -m sglang.launch_server --model-path x/y --speculative-algo EAGLE3 --speculative-num-steps 5 "
            "--speculative-draft-model-path a/b --speculative-eagle-topk 8 --speculative-num-draft-tokens 64",
            "eagle 5 8",
        ),
        ("python -m sglang.launch_server --model-path x/y --speculative-algorithm NEXTN", "mtp"),
        ("llama-server -m a.gguf -md Llama-3.2-1B-Q8_0.gguf --draft-max 8", "draft:Llama-3.2-1B-Q8_0.gguf 8"),
        ("vllm serve x/y", ""),
    ],
)
def test_speculative_decoding_of_a_command_is_computed(command: str, means: str) -> None:
    words, notes = with_pasted_command(["--gpu", "h100-sxm", *shlex.split(command)], GUESSES)
    names = ("--speculative", "--draft-tokens", "--draft-branches")
    assert " ".join(words[words.index(name) + 1] for name in names if name in words) == means
    assert not [note for note in notes if "specul" in note or "draft" in note]


def test_speculative_decoding_that_is_not_known_is_said_to_be_left_out() -> None:
    command = """vllm serve x/y --speculative-config '{"method": "newest", "num_speculative_tokens": 3}'"""
    words, notes = with_pasted_command(["--gpu", "h100-sxm", *shlex.split(command)], GUESSES)
    assert "--speculative" not in words
    assert any("without the speculative decoding of the command" in note for note in notes)
