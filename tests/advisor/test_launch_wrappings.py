"""Start commands in what wraps them: a wrapped command means what it means alone, for every program."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.catalog.engines import all_ids
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.programs import EngineProgram, all_programs
from advisor.cli.engine_command import with_pasted_command
from advisor.cli.engine_words import plain_signs
from advisor.cli.launch_files import accelerator_in, commands_in

KNOWN = frozenset(
    shlex.split(
        "--model --gpu --tp --pp --dp --ep --engine --precision --kv-precision --context --concurrency "
        "--max-num-seqs --max-num-batched-tokens --gpu-memory-utilization --enforce-eager --engine-version"
    )
)
COMMANDS = {
    "vllm": "vllm serve --model x/y --tensor-parallel-size 2 --max-model-len 16384",
    "runpod-vllm": "",
    "sglang": "python3 -m sglang.launch_server --model-path x/y --tp-size 2 --context-length 16384",
    "tensorrt-llm": "trtllm-serve x/y --tp_size 2 --max_seq_len 16384 --kv_cache_free_gpu_memory_fraction 0.85",
    "llama-cpp": "llama-server -hf x/y-GGUF:Q4_K_M -c 16384 -np 2 -ctk q8_0",
    "ollama": "ollama run x:8b",
    "koboldcpp": "koboldcpp --model y.gguf --contextsize 8192 --quantkv 1",
    "localai": "local-ai run y.gguf",
    "lm-studio": "lms load x/y --context-length 8192",
    "lemonade": "lemonade-server run y-GGUF --ctx-size 8192",
    "text-generation-webui": "python server.py --model y.gguf --ctx-size 8192 --cache-type q8_0",
    "tabbyapi": "python main.py --model-name y-exl3-4.0bpw --max-seq-len 8192 --cache-mode 8,8",
    "aphrodite": "aphrodite run x/y -tp 2 --max-model-len 16384",
    "lmdeploy": "lmdeploy serve api_server x/y --tp 2 --session-len 16384 --quant-policy 8",
    "mlx": "mlx_lm.server --model x/y-4bit",
    "mlx-tools": "python -m mlx_lm.generate --model x/y-4bit",
    "djl": "",
    "nim": "",
    "tgi": "text-generation-launcher --model-id x/y --num-shard 2 --max-total-tokens 16384",
    "transformers": "transformers serve --model x/y",
    "mistral-rs": "mistralrs-server --port 1234 plain -m x/y",
    "mlc-llm": "mlc_llm serve x/y --mode server",
    "ktransformers": "python -m ktransformers.local_chat --model_path x/y",
    "text-embeddings-inference": "text-embeddings-router --model-id x/y",
    "infinity": "infinity_emb v2 --model-id x/y",
    "faster-whisper": "whisper-ctranslate2 --model x/y",
    "deepspeed-mii": "python -m mii.entrypoints.openai_api_server --model x/y --tensor-parallel 2",
    "lightllm": "python -m lightllm.server.api_server --model_dir x/y --tp 2",
    "exo": "exo run x/y",
    "openvino": "ovms --source_model x/y",
    "petals": "python -m petals.cli.run_server x/y",
    "xinference": "xinference launch --model-name x --size-in-billions 8 --n-gpu 2",
}
"""A start command of each program; that of a program which takes variables alone is empty."""


def understand(*typed: str) -> dict[str, str]:
    words, _ = with_pasted_command(["--engine", "vllm", *typed], KNOWN)
    places = [place for place, word in enumerate(words) if word.startswith("--")]
    return {
        words[at]: " ".join(words[at + 1 : end])
        for at, end in zip(places, [*places[1:], len(words)], strict=True)
    }


def as_lines(command: str, mark: str) -> str:
    return command.replace(" -", f" {mark}\n  -")


def as_script(command: str) -> str:
    """Return a script that names one value by a variable."""
    value = command.split()[-1]
    head = command[: -len(value)]
    return f'#!/bin/bash\nset -e\nVALUE="{value}"\necho starting\nexec {head}"$VALUE" 2>&1 | tee log &\n'


def as_array(command: str) -> str:
    program, dash, options = command.partition(" -")
    return f'ARGS=(\n  {dash.strip()}{options}\n)\n{program} "${{ARGS[@]}}"\n'


def as_pod(command: str) -> str:
    return yaml.safe_dump(
        {"kind": "Pod", "spec": {"containers": [{"name": "a", "command": command.split()}]}}
    )


def as_pod_of_variables(command: str) -> str:
    *head, value = command.split()
    container = {
        "image": "registry.example/any:1",
        "command": ["/bin/sh", "-c"],
        "args": [f"set -e\n{' '.join(head)} $(VALUE)\n"],
        "env": [{"name": "VALUE", "value": value}],
    }
    return yaml.safe_dump({"spec": {"template": {"spec": {"containers": [container]}}}})


def as_makefile(command: str) -> str:
    *head, value = command.split()
    return f"VALUE ?= {value}\nserve:\n\t{' '.join(head)} $(VALUE)\n"


def as_python(command: str) -> str:
    *head, value = command.split()
    return (
        f"import os\nimport subprocess\nVALUE = os.environ.get('VALUE', {value!r})\n"
        f"def serve():\n    cmd = {head!r}\n    cmd += [VALUE]\n    subprocess.Popen(' '.join(cmd), shell=True)\n"
    )


WRAPPINGS: dict[str, tuple[str, Callable[[str], str]]] = {
    "script": ("run.sh", as_script),
    "variable in front": ("run.sh", lambda command: f"A=1 B='2 3' {command}\n"),
    "script over lines": ("run.sh", lambda command: as_lines(command, "\\")),
    "array": ("run.bash", as_array),
    "batch": ("run.bat", lambda command: f"@echo off\nREM {command}\n{as_lines(command, '^')}\npause\n"),
    "PowerShell": ("run.ps1", lambda command: as_lines(command, "`")),
    "text without a name": ("notes", lambda command: f"\n{as_lines(command, chr(92))}\n"),
    "compose": ("compose.yaml", lambda command: yaml.safe_dump({"services": {"a": {"command": command}}})),
    "compose list": (
        "compose.yml",
        lambda command: yaml.safe_dump({"services": {"a": {"entrypoint": command.split()}}}),
    ),
    "pod": ("pod.yaml", as_pod),
    "pod with variables": ("pod.yaml", as_pod_of_variables),
    "SkyPilot": (
        "task.yaml",
        lambda command: yaml.safe_dump({"setup": "pip install x", "run": f"cd a\n{command}\n"}),
    ),
    "dstack": (
        "x.dstack.yml",
        lambda command: yaml.safe_dump({"type": "service", "commands": ["cd a", command]}),
    ),
    "ECS": (
        "task.json",
        lambda command: json.dumps({"containerDefinitions": [{"image": "a", "command": command.split()}]}),
    ),
    "TOML": ("any.toml", lambda command: f"[services.a]\ncommand = {json.dumps(command)}\n"),
    "unit": (
        "a.service",
        lambda command: (
            f"[Unit]\nDescription=x\n[Service]\nEnvironment=A=1\nExecStart=/usr/bin/env {as_lines(command, chr(92))}\n"
        ),
    ),
    "Dockerfile": (
        "Dockerfile",
        lambda command: f"FROM a:1\nRUN pip install x\nCMD {json.dumps(command.split())}\n",
    ),
    "Dockerfile of words": (
        "api.Dockerfile",
        lambda command: f"FROM a:1\nRUN pip install x\nENTRYPOINT {command}\n",
    ),
    "shell in a shell": ("run.sh", lambda command: f'bash -lc "A=$(cat /run/a) {command}"\n'),
    "lines of options": (
        "config.yaml",
        lambda command: yaml.safe_dump({"models": {"a": {"cmd": as_lines(command, "")}}}),
    ),
    "Makefile": ("Makefile", as_makefile),
    "Slurm": (
        "job.sbatch",
        lambda command: f"#!/bin/bash\n#SBATCH --gres=gpu:8\nsrun --ntasks=1 {command}\n",
    ),
    "Markdown": ("notes.md", lambda command: f"# Serve\n\n```bash\n{as_lines(command, chr(92))}\n```\n"),
    "Terraform": (
        "main.tf",
        lambda command: f'resource "a" "b" {{\n  name = "x"\n  command = {json.dumps(command.split())}\n}}\n',
    ),
    "Nomad": (
        "a.nomad.hcl",
        lambda command: (
            f'config {{\n image = "a:1"\n command = "{command.split()[0]}"\n'
            f" args = {json.dumps(command.split()[1:])}\n}}\n"
        ),
    ),
    "Podman": ("a.container", lambda command: f"[Container]\nImage=a:1\nExec={command}\n"),
    "Python": ("serve.py", as_python),
    "Python text": ("serve.py", lambda command: f"import os\nos.system('{command} &')\n"),
    "notebook with a process": (
        "b.ipynb",
        lambda command: json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": "!pip install -q \\\n  requests\n%env A=1"},
                    {
                        "cell_type": "code",
                        "source": f"import subprocess\nsubprocess.Popen({command.split()})",
                    },
                ]
            }
        ),
    ),
    "notebook with a cell of a shell": (
        "c.ipynb",
        lambda command: json.dumps(
            {"cells": [{"cell_type": "code", "source": f"%%bash\nls\n{command} &\n"}]}
        ),
    ),
    "notebook": (
        "a.ipynb",
        lambda command: json.dumps({"cells": [{"cell_type": "code", "source": [f"!{command}\n", "a = 1"]}]}),
    ),
}


def test_every_program_has_a_command_that_is_tried_and_an_engine() -> None:
    assert COMMANDS.keys() == all_programs().keys()
    for program in all_programs().values():
        assert program.pattern.fullmatch(program.command)


@pytest.mark.parametrize(
    "program", [program for program in all_programs().values() if program.engine not in all_ids()]
)
def test_a_program_of_an_engine_that_is_not_planned_is_refused_by_name(program: EngineProgram) -> None:
    typed = [COMMANDS[program.id]] if COMMANDS[program.id] else ["docker", "run", "nvcr.io/nim/x/y:1"]
    with pytest.raises(AdvisorError, match=f"nothing is planned with {program.engine}"):
        with_pasted_command(typed, KNOWN)
    assert understand(*typed)["--model"]


@pytest.mark.parametrize("engine", ["OLlama", "VLLM", "Infinity", "FasterWhisper"])
def test_a_resource_of_kubeai_starts_the_engine_that_it_names(engine: str) -> None:
    url = "ollama://x:8b" if engine == "OLlama" else "hf://x/y"
    text = yaml.safe_dump({"kind": "Model", "spec": {"url": url, "engine": engine, "owner": "x"}})
    assert understand(text)["--model"] == url
    names = {program.engine for program in all_programs().values() if "spec.engine" in program.places}
    assert len(names) == 4
    if engine in ("Infinity", "FasterWhisper"):
        with pytest.raises(AdvisorError, match="nothing is planned"):
            with_pasted_command([text], KNOWN)


@pytest.mark.parametrize("package", ["vllm@0.11.0", "vllm==0.11.0", "vllm[flashinfer]==0.11.0"])
def test_a_package_with_its_release_starts_that_release(package: str) -> None:
    for line in (f"uvx {package} serve x/y -tp 2", f"uv run --with {package} vllm serve x/y -tp 2"):
        found = understand(*line.split())
        assert found == understand("vllm", "serve", "x/y", "-tp", "2") | {"--engine-version": "0.11.0"}
        assert understand(f"#!/bin/sh\n{line}\n") == found


def test_a_notebook_that_installs_a_release_starts_that_release() -> None:
    starts = "import subprocess\nsubprocess.Popen(['vllm', 'serve', 'x/y'])\n"
    for installs in ("%pip install -q 'vllm[audio]'==0.11.0 torch", "!pip install vllm==0.11.0"):
        assert understand(f"{installs}\n{starts}")["--engine-version"] == "0.11.0"


def test_the_body_of_a_request_means_what_its_settings_mean() -> None:
    body = {"model": "x:8b", "prompt": "Why?", "options": {"num_ctx": 16384}}
    alone = understand("ollama", "run", "x:8b", "--num-ctx", "16384")
    assert understand(f"curl http://gpu1:11434/api/generate -d '{json.dumps(body, indent=2)}'") == alone
    assert (
        understand(f"import requests\nrequests.post('http://gpu1:11434/api/chat', json={body!r})\n") == alone
    )


@pytest.mark.parametrize("key", ["launch", "exec", "serverCommand", "x-start"])
def test_a_command_in_a_document_counts_whatever_its_key_is(key: str) -> None:
    command = "python -m sglang.launch_server --model-path x/y --tp-size 4"
    document = {"name": "a", "about": "how vllm serve works", "instances": [{key: command}]}
    for text in (json.dumps(document), yaml.safe_dump(document)):
        assert understand(text) == understand(*command.split())


def test_a_list_of_yaml_is_no_option() -> None:
    task = [
        {"name": "a", "community.docker.docker_container": {"command": ["vllm", "serve", "x/y", "-tp", "2"]}}
    ]
    alone = understand("vllm", "serve", "x/y", "-tp", "2")
    for text in (yaml.safe_dump(task), "---\n" + yaml.safe_dump(task), "--- # play\n" + yaml.safe_dump(task)):
        assert understand(text) == alone


def test_an_engine_that_is_planned_counts_before_others_in_a_program() -> None:
    text = "from transformers import AutoModelForCausalLM\nfrom vllm import LLM\n"
    both = "AutoModelForCausalLM.from_pretrained('a/b')\nLLM('x/y', tensor_parallel_size=2)\n"
    assert understand(text + both) == understand("vllm", "serve", "x/y", "-tp", "2")


def test_a_size_beside_a_name_is_part_of_the_model() -> None:
    typed = "xinference launch --model-name qwen3 --size-in-billions %s --model-engine vLLM"
    for size, name in (("8", "qwen3-8b"), ("0_6", "qwen3-0.6b")):
        words, _ = with_pasted_command((typed % size).split(), KNOWN)
        assert words == ["--model", name, "--engine", "vllm"]


PROGRAMS = [name for name, command in COMMANDS.items() if command]
WRAPPED = [
    (program, wrapping)
    for place, program in enumerate(PROGRAMS)
    for number, wrapping in enumerate(WRAPPINGS)
    if (place + number) % 3 == 0
]
"""A third of all pairs: every program in every third wrapping, and every wrapping around every third program."""


@pytest.mark.parametrize(("program", "wrapping"), WRAPPED)
def test_a_wrapped_command_means_what_it_means_alone(
    program: str, wrapping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[program]
    alone = understand(*command.split())
    assert alone["--model"]
    name, wrap = WRAPPINGS[wrapping]
    Path(name).write_text(wrap(command))
    assert understand(name) == alone
    if wrapping != "text without a name":  # it needs no second look
        assert understand(Path(name).read_text()) == alone


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "vllm": (
        {"model": "x/y", "tensor_parallel_size": 2, "max_model_len": 16384, "port": 8000},
        "vllm serve x/y -tp 2 --max-model-len 16384",
    ),
    "runpod-vllm": (
        {"model_name": "x/y", "tensor_parallel_size": 2, "max_model_len": 16384},
        "vllm serve x/y -tp 2 --max-model-len 16384",
    ),
    "sglang": (
        {"model-path": "x/y", "tp-size": 2, "mem-fraction-static": 0.8},
        "sglang serve --model-path x/y --tp-size 2 --mem-fraction-static 0.8",
    ),
    "koboldcpp": (
        {
            "model_param": "y.gguf",
            "contextsize": 8192,
            "quantkv": 1,
            "usecublas": ["normal"],
            "flashattention": False,
        },
        "koboldcpp y.gguf --contextsize 8192 --quantkv 1",
    ),
    "tabbyapi": (
        {
            "network": {"port": 5000},
            "model": {"model_name": "y-exl3-4.0bpw", "max_seq_len": 8192, "cache_mode": "Q4"},
        },
        "python main.py --model-name y-exl3-4.0bpw --max-seq-len 8192 --cache-mode Q4",
    ),
    "localai": (
        {"name": "y", "parameters": {"model": "y.gguf"}, "context_size": 8192},
        "llama-server -m y.gguf -c 8192",
    ),
    "llama-cpp": (
        {"model": "y.gguf", "n_ctx": 8192, "n_gpu_layers": -1},
        "llama-server -m y.gguf -c 8192",
    ),
    "djl": (
        {"option_model_id": "x/y", "option_tensor_parallel_degree": 2, "option_max_model_len": 8192},
        "vllm serve x/y -tp 2 --max-model-len 8192",
    ),
    "lmdeploy": (
        {"model": "x/y", "session_len": 8192, "tp": 2},
        "lmdeploy serve api_server x/y --session-len 8192 --tp 2",
    ),
}
"""Settings of a program, and the command that they stand for."""


def as_call(settings: dict[str, Any], program: str) -> str:
    package, _, name = all_programs()[program].calls[0].partition(".")
    arguments = ", ".join(f"{key.replace('-', '_')}={value!r}" for key, value in settings.items())
    return f"from {package} import {name}\nMODEL = 1\nengine = {name}({arguments})\n"


@pytest.mark.parametrize("program", SETTINGS)
@pytest.mark.parametrize("form", ["a.yaml", "a.json", "a.toml", "nested", "list", "call"])
def test_settings_mean_what_the_options_mean(
    program: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, command = SETTINGS[program]
    if form == "call" and not all_programs()[program].calls:
        return
    toml = "\n".join(
        f"{key} = {json.dumps(value)}" for key, value in settings.items() if not isinstance(value, dict)
    )
    tables = "\n".join(
        f"[{key}]\n" + "\n".join(f"{name} = {json.dumps(one)}" for name, one in value.items())
        for key, value in settings.items()
        if isinstance(value, dict)
    )
    text = {
        "a.yaml": yaml.safe_dump(settings),
        "a.json": json.dumps(settings),
        "a.toml": f"{toml}\n{tables or '[other]'}\n",
        "nested": yaml.safe_dump({"kind": "Any", "spec": {"engine": settings}}),
        "list": yaml.safe_dump({"models": [{"name": "a", "settings": settings}]}),
        "call": as_call(settings, program) if form == "call" else "",
    }[form]
    Path(form).write_text(text)
    assert understand(form) == understand(*command.split())


@pytest.mark.parametrize(
    "text",
    [
        "[build]\nimage = 'ghcr.io/ggml-org/llama.cpp:server-cuda'\n[processes]\napp = '-hf x/y-GGUF:Q6_K -c 8192'\n",
        "base: {image: 'ghcr.io/ggml-org/llama.cpp:server'}\nserver: {args: [-hf, 'x/y-GGUF:Q6_K', -c, '8192']}\n",
    ],
)
def test_words_without_a_program_belong_to_the_only_image(text: str) -> None:
    assert understand(text) == understand(*["llama-server", "-hf", "x/y-GGUF:Q6_K", "-c", "8192"])


@pytest.mark.parametrize(
    ("program", "place"),
    [
        (each.id, place)
        for each in all_programs().values()
        for place in each.places
        if each.places[place] == "model"
    ],
)
def test_values_of_a_chart_mean_the_options_at_their_places(program: str, place: str) -> None:
    chosen = all_programs()[program]
    chart: dict[str, Any] = {"extraEnv": [{"name": "OLLAMA_CONTEXT_LENGTH", "value": "8192"}]}
    values = {"model": ["x/y"] if program == "ollama" else "hf://x/y", "*": ["--max-model-len", "8192"]}
    command = [*chosen.command.split(), f"--model={'x/y' if program == 'ollama' else 'hf://x/y'}"]
    options: list[str] = ["--ctx-size=8192"] if program == "ollama" else []
    for each, option in chosen.places.items():
        if each.partition(".")[0] != place.partition(".")[0] or (option == "model" and each != place):
            continue
        *outer, last = each.split(".")
        inner = chart
        for key in outer:
            inner = inner.setdefault(key, [{}] if key == "containers" else {})
            inner = inner[0] if isinstance(inner, list) else inner
        inner[last] = values.get(option, option.partition("=")[2] or 2)
        if option != "model" and not option.startswith("="):
            options += values["*"] if option == "*" else [f"--{option}=2"]
    assert understand(yaml.safe_dump(chart)) == understand(*command, *options)


@pytest.mark.parametrize("key", ["environment", "Environment", "env", "extra_env", "extraEnv"])
def test_keys_of_a_container_differ_by_format_and_mean_the_same(key: str) -> None:
    one = {
        "Image": "a/djl-inference:0.32.0",
        key: {"HF_MODEL_ID": "x/y", "OPTION_TENSOR_PARALLEL_DEGREE": "4"},
    }
    for text in (json.dumps(one), json.dumps(one, separators=(",", ":")), yaml.safe_dump({"a": one})):
        assert understand(text) == understand("vllm", "serve", "x/y", "-tp", "4")


@pytest.mark.parametrize("start", ["cat > a.yml <<EOF", "cat <<'EOF' > a.yml", "tee a.yml << EOF >/dev/null"])
def test_a_file_that_a_script_writes_is_that_of_its_options(start: str) -> None:
    options = "kv_cache_config:\n  dtype: fp8\nmax_seq_len: 8192\n"
    script = f"{start}\n{options}EOF\ntrtllm-serve x/y --extra_llm_api_options a.yml --tp_size 2\n"
    found = understand(script)
    assert found == understand(*["trtllm-serve", "x/y", "--max_seq_len", "8192", "--tp_size", "2"]) | {
        "--kv-precision": "fp8"
    }


def test_an_image_with_a_model_in_it_names_that_model() -> None:
    variables = "-e NIM_MAX_MODEL_LEN=16384 -e NIM_TENSOR_PARALLEL_SIZE=2"
    typed = f"docker run {variables} nvcr.io/nim/meta/llama-3.1-70b-instruct:1.8.4"
    means = understand("vllm", "serve", "meta/llama-3.1-70b-instruct", "-tp", "2", "--max-model-len", "16384")
    assert understand(*typed.split()) == means
    with pytest.raises(AdvisorError, match="nim"):
        with_pasted_command(typed.split(), KNOWN)


def test_parameters_of_triton_mean_what_the_options_mean() -> None:
    text = (
        'name: "tensorrt_llm"\nmax_batch_size: 64\nparameters: {\n  key: "gpt_model_path"\n  value: {\n'
        '    string_value: "x/y"\n  }\n}\n'
        'parameters { key: "kv_cache_free_gpu_mem_fraction" value { string_value: "0.85" } }\n'
    )
    command = "trtllm-serve x/y --max_batch_size 64 --kv_cache_free_gpu_memory_fraction 0.85"
    assert understand(text) == understand(*command.split())


def test_the_command_of_a_line_ends_at_operators() -> None:
    alone = understand("ollama", "run", "x:8b")
    image = "services: {a: {image: 'ollama/ollama:0.12.3', entrypoint: [/bin/sh, -c, '%s']}}"
    for line in ("ollama serve & sleep 5 && ollama run x:8b && wait", "sleep 5; ollama run x:8b; echo a"):
        assert understand(f"#!/bin/sh\n{line}\n") == alone
        assert understand(image % line) == alone
    assert understand(*["docker", "run", "-d", "ollama/ollama:0.12.3", "run", "x:8b"]) == alone


def test_a_job_counts_its_accelerators_and_what_nothing_sets_is_named() -> None:
    run = "resources: {accelerators: 'H100:4'}\nrun: python -u -m vllm.entrypoints.openai.api_server x/y -tp $%s\n"
    assert understand(run % "SKYPILOT_NUM_GPUS_PER_NODE")["--tp"] == "4"
    with pytest.raises(AdvisorError, match=r"-tp \$UNSET"):
        understand(run % "UNSET")
    _, notes = with_pasted_command([f"{run % 'SKYPILOT_NUM_GPUS_PER_NODE'} --max-num-seqs $UNSET"], KNOWN)
    assert "--max-num-seqs $UNSET" in " ".join(notes)


@pytest.mark.parametrize("between", ["\n", "; ", " && ", " ; "])
@pytest.mark.parametrize("start", ["", "export ", "readonly "])
def test_variables_count_however_many_stand_on_a_line(between: str, start: str) -> None:
    pairs = ("MODEL=x/y", "TP=$((2 * 2))", "LEN='16384'")
    run = "vllm serve $MODEL --tensor-parallel-size ${TP} --max-model-len $LEN"
    expected = understand(
        *["vllm", "serve", "x/y", "--tensor-parallel-size", "4", "--max-model-len", "16384"]
    )
    assert understand(between.join(f"{start}{pair}" for pair in pairs) + f"\n{run}\n") == expected
    assert understand(between.join((*(f"{start}{pair}" for pair in pairs), run)) + "\n") == expected
    if start:
        assert understand(f"{start}{' '.join(pairs)}\n{run}\n") == expected


def test_objects_of_options_may_have_names() -> None:
    text = (
        "from lmdeploy import pipeline, TurbomindEngineConfig\nconfig = TurbomindEngineConfig(tp=2, session_len=8192)\n"
        "pipe = pipeline('x/y', backend_config=config)\n"
    )
    assert understand(text) == understand(
        *["lmdeploy", "serve", "api_server", "x/y", "--tp", "2", "--session-len", "8192"]
    )


@pytest.mark.parametrize(
    "launcher",
    [
        "conda run -n a",
        "wsl",
        "ssh gpu1",
        "tmux new -d",
        "torchrun --nproc_per_node 1",
        "mpirun -n 1",
        "any program at all",
    ],
)
def test_what_launches_a_command_is_left_out(launcher: str) -> None:
    command = ["-m", "sglang.launch_server", "--model-path", "x/y", "--tp", "2"]
    words, _ = with_pasted_command(["--gpu", "t4", "--json", *launcher.split(), *command], KNOWN, ("--json",))
    assert words[:3] == ["--gpu", "t4", "--json"]
    assert words[3].startswith("--")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "import argparse\nfrom vllm import LLM\np = argparse.ArgumentParser()\n"
            "p.add_argument('--model', default='x/y')\n"
            "args = p.parse_args()\nllm = LLM(model=args.model, max_model_len=4096)\n",
            "vllm serve x/y --max-model-len 4096",
        ),
        (
            "import lmstudio as lms\nm = lms.llm('x/y', config={'contextLength': 8192})\n",
            "lms load x/y --context-length 8192",
        ),
        (
            "# flags\n--listen --api\n--model y.gguf --ctx-size 8192\n--loader llama.cpp\n",
            "python server.py --model y.gguf --ctx-size 8192",
        ),
        (
            "docker run --gpus all -p 80:80 -v /data/x/y:/m vllm/vllm-openai --model /m --max-model-len 4096",
            "vllm serve y --max-model-len 4096",
        ),
        (
            "services: {a: {image: hub/vllm/vllm-openai:latest, volumes: ['/data/y:/m'], command: /m -tp 2}}",
            "vllm serve y -tp 2",
        ),
        ("vllm serve x/y --tensor_parallel 2 --max_model 4096", "vllm serve x/y -tp 2 --max-model-len 4096"),
    ],
)
def test_options_are_found_where_programs_of_people_keep_them(text: str, command: str) -> None:
    assert understand(text) == understand(*command.split())


def test_properties_are_options() -> None:
    text = "engine=Python\noption.model_id=x/y\noption.tensor_parallel_degree=2\n"
    assert understand(text) == understand("vllm", "serve", "x/y", "-tp", "2")


@pytest.mark.parametrize(
    ("image", "variables", "command"),
    [
        (
            "ghcr.io/ggml-org/llama.cpp:server-cuda",
            {
                "LLAMA_ARG_HF_REPO": "x/y-GGUF:Q4_K_M",
                "LLAMA_ARG_CTX_SIZE": "8192",
                "LLAMA_ARG_N_PARALLEL": "2",
            },
            "llama-server -hf x/y-GGUF:Q4_K_M -c 8192 -np 2",
        ),
        (
            "ghcr.io/huggingface/text-generation-inference:3.3.4",
            {"MODEL_ID": "x/y", "NUM_SHARD": "2", "MAX_TOTAL_TOKENS": "8192"},
            "text-generation-launcher --model-id x/y --num-shard 2 --max-total-tokens 8192",
        ),
        (
            "runpod/worker-v1-vllm:v2.7.0stable-cuda12.1.0",
            {"MODEL_NAME": "x/y", "MAX_MODEL_LEN": "8192", "GPU_MEMORY_UTILIZATION": "0.9"},
            "vllm serve x/y --max-model-len 8192 --gpu-memory-utilization 0.9",
        ),
    ],
)
def test_variables_of_a_container_are_options(
    image: str, variables: dict[str, str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meant = understand(*command.split())
    pairs = [f"{name}={value}" for name, value in variables.items()]
    Path("compose.yaml").write_text(
        yaml.safe_dump({"services": {"a": {"image": image, "environment": pairs}}})
    )
    Path("env.yaml").write_text(yaml.safe_dump({"a": {"image": image, "environment": variables}}))
    rows = [{"name": name, "value": value} for name, value in variables.items()]
    Path("pod.yaml").write_text(yaml.safe_dump({"spec": {"containers": [{"image": image, "env": rows}]}}))
    Path("Dockerfile").write_text(f"FROM {image}\nWORKDIR /a\n" + "".join(f"ENV {pair}\n" for pair in pairs))
    for name in ("compose.yaml", "env.yaml", "pod.yaml", "Dockerfile"):
        found = understand(name)
        found.pop("--engine-version", None)
        assert found == meant, name
    assert understand(
        "docker", "run", *(word for pair in pairs for word in ("-e", pair)), image
    ) | meant == understand("docker", "run", *(word for pair in pairs for word in ("-e", pair)), image)


def test_what_wraps_a_command_names_its_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = "run: vllm serve x/y\n"
    for text in (
        "resources: {accelerators: 'L40S:2'}\n" + run,
        "resources:\n  accelerators: {L40S: 2}\n" + run,
        "resources:\n  gpu: L40S:2\n" + run,
        "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}\n" + run,
        "import modal\n@app.function(gpu='L40S:2')\ndef serve(): run('vllm serve x/y')\n",
        "import modal\n@app.function(gpu=f'L40S:{N}')\ndef serve(): run('vllm serve x/y')\n",
    ):
        assert understand(text)["--gpu"] == "l40s"
    assert understand("--gpu", "t4", text)["--gpu"] == "t4"
    assert "--gpu" not in understand("resources: {gpu: 24GB}\n" + run)


def test_long_texts_cost_little() -> None:
    many = ("a=" + " " * 60_000 + "x;", *(15_000 * part for part in ("${", "A=(", "set ", "(", "x=[", "'")))
    for text in many:
        list(commands_in(f"{text}\n{text}"))
    with pytest.raises(InputFileError, match="too long"):
        list(commands_in("a b\n" * 400_000))


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system(open('x').read())\n",
        "a: 1\nb: [2, {c: d}]\n",
        '{"results": [{"model": "x/y"}]}\n',
        "FROM scratch\nRUN true\n",
        "[Service]\nExecStart=/bin/true\n",
        "A=1\nB=2\n",
        "\n\n",
    ],
)
def test_what_starts_nothing_is_no_command(text: str) -> None:
    assert not re.search("--model", " ".join(with_pasted_command([text], KNOWN - {"--tp"})[0]))


def test_variables_of_a_template_may_be_a_key_and_a_value_and_flags_may_be_off() -> None:
    def template(eager: str) -> str:
        variables = {"MODEL_NAME": "x/y", "MAX_MODEL_LEN": "8192", "ENFORCE_EAGER": eager}
        env = [{"key": name, "value": value} for name, value in variables.items()]
        return json.dumps({"imageName": "runpod/worker-v1-vllm:v2.7.0", "env": env})

    def words_of(text: str) -> list[str]:
        return with_pasted_command([text], KNOWN, ("--enforce-eager",))[0]

    assert "--enforce-eager" in words_of(template("true"))
    assert "true" not in words_of(template("true"))
    assert "--enforce-eager" not in words_of(template("false"))


def test_one_command_in_several_forms_is_one_and_a_node_selector_names_the_accelerator() -> None:
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
    container = {
        "image": "vllm/vllm-openai:v0.10.0",
        "command": ["vllm", "serve"],
        "args": ["x/y", "-tp", "2"],
    }
    pod = {"containers": [container], "affinity": {"terms": [{"matchExpressions": [expression]}]}}
    for text in (json.dumps(pod), yaml.safe_dump(pod, sort_keys=False)):
        words, notes = with_pasted_command([text], KNOWN)
        assert words[words.index("--gpu") + 1] == "h100-sxm"
        assert not any("start commands" in note for note in notes)


def test_a_command_in_brackets_of_a_log_is_read() -> None:
    line = "2026-08-14 14:00:23 - worker - INFO - image: x/y:1, command: [vllm serve x/y --max-model-len=4096 -tp 2]"
    assert understand(line)["--tp"] == "2"


def test_a_file_of_options_that_a_script_echoes_is_read(tmp_path: Path) -> None:
    written = 'echo -e "enable_attention_dp: true\\nmax_seq_len: 4096" > a.yml\n'
    script = f"{written}trtllm-serve x/y --tp_size 8 --extra_llm_api_options ./a.yml\n"
    assert understand(script)["--context"] == "4096"


def test_a_file_of_options_that_is_not_here_is_named_and_left_out() -> None:
    words, notes = with_pasted_command(
        ["vllm", "serve", "x/y", "--config", "far/away.yml", "-tp", "2"], KNOWN
    )
    assert words[words.index("--tp") + 1] == "2"
    assert any("far/away.yml, which is not on this machine" in note for note in notes)


@pytest.mark.parametrize("dash", ["–", "—", "--"])
def test_signs_that_a_page_set_are_those_that_were_typed(dash: str) -> None:
    """Web pages and word processors turn two hyphens into a dash and straight quotation marks into round ones."""
    typed = f"vllm serve “x/y” {dash}tensor-parallel-size 2 {dash}max-model-len “4096”"
    assert understand(plain_signs(typed)) == understand(
        "vllm serve x/y --tensor-parallel-size 2 --max-model-len 4096"
    )
    script = f"#!/bin/bash\n{typed}\n"
    assert understand(script) == understand("vllm serve x/y --tensor-parallel-size 2 --max-model-len 4096")


def test_a_folder_that_a_reader_fills_in_is_no_part_of_the_model() -> None:
    assert (
        understand("llama-server.exe -m <path-to>\\qwen3-8b-q4_0.gguf -c 4096")["--model"]
        == "qwen3-8b-q4_0.gguf"
    )
    with pytest.raises(AdvisorError, match="where its model stands"):
        understand("llama-server.exe -m <gguf> -c 4096")


@pytest.mark.parametrize(
    ("selector", "gpu"),
    [
        ("karpenter.sh/instance-family: g6e", "l40s"),
        ("node.kubernetes.io/instance-type: p4d.24xlarge", "a100-sxm-40gb"),
        ("node.kubernetes.io/instance-type: m5.large", ""),
    ],
)
def test_a_type_of_rented_machine_says_the_accelerator(selector: str, gpu: str) -> None:
    assert accelerator_in(f"nodeSelector:\n  {selector}\n") == gpu
