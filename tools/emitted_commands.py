"""Commands inside emitted files, and the questions whose files `parse_emitted_commands.py` reads them from."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, get_args
from unittest import mock

import yaml

import advisor
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch_options import DYNAMO_TRTLLM
from advisor.decide.option import Option
from advisor.emit import formats
from advisor.emit.operators import DYNAMO, DYNAMO_ROLE, RAY

FORMS: Final = get_args(formats.Format)
STARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("vllm", "serve"),
    "sglang": ("-m", "sglang.launch_server"),
    "tensorrt-llm": ("trtllm-serve",),
    "llama.cpp": ("llama-server",),
    "lmdeploy": ("lmdeploy", "serve", "api_server"),
    "mlx": ("mlx_lm.server",),
    "vllm-router": ("vllm-router",),
    "sglang-router": ("-m", "sglang_router.launch_router"),
}
"""Words with which the command of each program begins."""
_MODELS: Final = (
    ("llama-3.1-8b", "h100-sxm"),
    ("qwen3-32b", "h200-sxm"),
    ("mixtral-8x7b", "h100-sxm"),
    ("gemma-2-9b", "l40s"),
    ("gpt-oss-20b", "h100-sxm"),
    ("qwen3-30b-a3b", "a100-sxm-80gb"),
    ("phi-2", "l40s"),
    ("qwen3-next-80b-a3b", "b200-sxm"),
)
_LARGE: Final = (("deepseek-v3", "h100-sxm"), ("kimi-k2", "h100-sxm"), ("llama-3.1-405b", "h100-sxm"))
_FEATURES: Final[tuple[Mapping[str, object], ...]] = (
    {},
    {"levers": "kv-fp8"},
    {"levers": "eagle"},
    {"levers": "ngram"},
    {"max_context": "100k", "ttft_p99": "30s"},
    {"rate": 60},
    {"adapters": 8},
)


_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}")
"""Expression of a template of KServe, which its controller fills in."""
_VARIABLES: Final = ("$worker", "${workers[@]}")
"""Variables of scripts that stand for further options; behind `--worker-urls` for its values."""


class Command(NamedTuple):
    """One command of an emitted file."""

    program: str
    words: tuple[str, ...]
    """Options and their values."""
    release: str = ""
    """Release of a stack that pins one; empty for the release of the plan."""


def questions() -> Iterator[dict[str, object]]:
    """Yield keywords of `advisor.recommend`, one dictionary for each question."""
    for place, (model, gpu) in enumerate(_MODELS):
        for number, engine in enumerate(("vllm", "sglang", "tensorrt-llm", "llama.cpp")):
            feature = _FEATURES[(place + 2 * number) % len(_FEATURES)]
            yield {"model": model, "gpu": gpu, "engine": engine, "rate": 2, **feature}
        talk = {"sessions": 4, "turn_gap": "10s"}
        yield {"model": model, "gpu": gpu, "engine": "vllm,sglang", "rate": 8, **talk}
        yield {"model": model, "gpu": gpu, "engine": "vllm,sglang", "rate": 40}
        yield {"model": model, "own": f"8x{gpu}", "engine": "vllm", "rate": 5}
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        rag = {"profile": "rag", "tpot_p99": "40ms", "fast": False}
        yield {"model": "qwen3-32b", "gpu": "h100-sxm", "engine": engine, "rate": 5, "levers": "pools", **rag}
        agent = {"profile": "agent", "fast": False}
        yield {
            "model": "llama-3.1-8b",
            "gpu": "h200-sxm",
            "engine": engine,
            "rate": 5,
            "levers": "split",
            **agent,
        }
    for (model, gpu), engine in itertools.product(_LARGE, ("vllm", "sglang", "tensorrt-llm")):
        yield {"model": model, "gpu": gpu, "engine": engine, "rate": 3}
    yield {"model": "qwen3-8b", "own": "1xm3-ultra", "engine": "mlx", "concurrency": 1, "ttft_p99": "20s"}
    yield {"model": "llama-3.1-8b", "own": "2xmi300x", "engine": "vllm", "rate": 4}
    yield {"model": "deepseek-v3", "gpu": "gb200", "engine": "vllm", "rate": 20}


def option_of(question: Mapping[str, object]) -> tuple[str, Option] | None:
    """Return the model and the first option of a question; None if nothing serves it."""
    found: list[tuple[str, Option]] = []

    def keep(model: str, option: Option, form: formats.Format, port: int = 0) -> dict[str, str]:
        found.append((model, option))
        return {}

    with mock.patch.object(formats, "emit_files", keep):
        try:
            advisor.recommend(**{"fast": True, **question}, emit="command")  # type: ignore[arg-type]
        except AdvisorError:
            return None
    return found[0] if found else None


def commands_in(files: Mapping[str, str]) -> Iterator[Command]:
    """Yield the commands of engines and routers that emitted files start."""
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            yield from _of_script(text)
        elif name.endswith(".yaml") and not name.endswith("engine.yaml") and name != "router.yaml":
            for document in yaml.safe_load_all(text):
                yield from _of_tree(document)


def _of_script(text: str) -> Iterator[Command]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("#") or not any(start[-1] in line for start in STARTS.values()):
            continue
        try:
            words = shlex.split(_TEMPLATE.sub(" ", line).replace("<(", "("), comments=True)
        except ValueError:
            continue
        if "--entrypoint" in words:
            place = words.index("--entrypoint")
            words = [words[place + 1], *words[place + 3 :]]
        yield from _of_words(words)


def _of_words(words: list[str]) -> Iterator[Command]:
    if words and words[0].startswith("/"):
        words = [PurePosixPath(words[0]).name, *words[1:]]  # a program outside an image's search path
    for program, start in STARTS.items():
        places = [place for place in range(len(words)) if tuple(words[place : place + len(start)]) == start]
        for place in places:
            rest = words[place + len(start) :]
            first = next((k for k, word in enumerate(rest) if word.startswith("-")), len(rest))
            ends = ("&", "&&", "|", ";")
            last = next((k for k, word in enumerate(rest) if word in ends), len(rest))
            if rest[:1] == ["disaggregated"]:
                continue  # TensorRT-LLM's router, whose one option is a file
            yield Command(program, tuple(_without_variables(rest[first:last])))


def _without_variables(words: list[str]) -> Iterator[str]:
    """Yield words of a script without variables that stand for further options."""
    for before, word in zip(["", *words], words, strict=False):
        if word not in _VARIABLES or before == "--worker-urls":
            yield word


def _of_tree(node: Any) -> Iterator[Command]:
    """Yield the commands of a YAML document: containers, scripts of tasks, and arguments of stacks."""
    if isinstance(node, list):
        for each in node:
            yield from _of_tree(each)
    elif isinstance(node, dict):
        yield from _of_container(node)
        for key, each in node.items():
            if key in ("run", "setup") and isinstance(each, str):
                yield from _of_script(each)
            elif key == "serveConfigV2":
                yield from _of_ray(yaml.safe_load(each))
            else:
                yield from _of_tree(each)


def _of_container(node: Mapping[str, Any]) -> Iterator[Command]:
    parts = [node.get(key) or [] for key in ("entrypoint", "command", "args")]
    words = [str(word) for part in parts if isinstance(part, list) for word in part]
    if not words:
        return
    stack = next((word.partition(".")[2] for word in words if word.startswith("dynamo.")), "")
    if stack:
        if stack == "trtllm":
            yield Command(DYNAMO_TRTLLM, tuple(words[words.index("dynamo.trtllm") + 1 :]), DYNAMO.release)
            return
        release = DYNAMO.engines[stack]
        own = words[words.index(f"dynamo.{stack}") + 1 :]
        if stack == "vllm" and DYNAMO_ROLE in own:  # an option of Dynamo alone, which stands last
            own = own[: own.index(DYNAMO_ROLE)]
        yield Command(stack, tuple(own), release)
    elif PurePosixPath(words[0]).name in ("bash", "sh"):
        yield from _of_script(words[-1])
    elif (
        words[0].startswith("--") and node.get("name") == "main"
    ):  # read again by the script of KServe's template
        yield Command("vllm", tuple(shlex.split(" ".join(words))))
    else:
        yield from _of_words(words)


def _of_ray(content: Any) -> Iterator[Command]:
    for application in content["applications"]:
        args = application["args"]
        single = [args[key] for key in ("llm_config", "prefill_config", "decode_config") if key in args]
        for model in args.get("llm_configs") or single:
            words: list[str] = []
            for key, value in model["engine_kwargs"].items():
                option = f"--{key.replace('_', '-')}"
                if value is True:
                    words.append(option)
                elif value is False:
                    words.append(f"--no-{option[2:]}")
                else:
                    words += [option, value if isinstance(value, str) else json.dumps(value)]
            yield Command("vllm", tuple(words), RAY.engines["vllm"])
