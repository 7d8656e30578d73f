"""Command lines nobody wrote: any mixture of options, values and files ends in a documented code, soon and small.

CI tries 150, always the same. `ADVISOR_FUZZ_CASES=5000 ADVISOR_FUZZ_SEED=7` tries more, others.
"""

import inspect
import io
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.ask.inputs import parameters_of
from advisor.ask.options import SharedOptions
from advisor.cli.command import commands

CASES = int(os.environ.get("ADVISOR_FUZZ_CASES", "150"))
SEED = int(os.environ.get("ADVISOR_FUZZ_SEED", "1"))
PROCESSES = int(os.environ.get("ADVISOR_FUZZ_PROCESSES", "6"))
LIMIT_S = 60
Ask = Callable[[list[str]], tuple[int, str, str]]
Check = Callable[[list[str], int, str, str], None]
MOST_BYTES = 2_000_000_000
SLOW = {"recommend", "build", "build check", "cost", "replay"}
"""Seconds each: asked less often."""
LEFT_OUT = {"probe", "catalog refresh", "sweep", "config show", "serve-api", "mcp"}
"""Options about the machine, the network and many points at once, which other tests cover."""
TEXTS = (
    "", " ", "0", "-1", "1", "nan", "inf", "-inf", "1e400", "1e30", "²", "٣", "0x10", "1_000", "9" * 5000, "70b", "8b",
    "llama-3.1-8b", "h100", "h100-sxm", "rtx-4090", "8xh100-sxm", "0xh100", "99999999999xh100", "fp8", "bf16", "tf32",
    "int4", "vllm", "llama.cpp", "chat", "rag", "aws", "all", ",", ",,", "a,b", "1GB", "1e18GB", "-1GB", "0GB", "50ms",
    "1e-9s", "30d", "1e9d", "10/s", "600/min", "1e6/s", "1e7/s", "1e-9/s", "1M", "1e18", "1024x768", "0x0", "9999999x9",
    "uniform:2", "lognormal:1e9", "min x", "120V/15A", "0V/0A", "1500W", "2026-01-01", "0001-01-01", "9999-12-31", "eu",
    "\x1b[2J\x1b]0;x\x07", "\u202e", "\ud800", "\u0085", "a" * 300, "../../x", "/dev/null", "/dev/full", "/", ".", "~",
    "$(id)", "; id", "' \"", "<script>", "%s%n", "{0}", "--json", "-",
)  # fmt: skip
NUMBERS = (
    -(2**63),
    -1,
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    64,
    100,
    1000,
    65_536,
    10**6,
    10**7,
    2**31,
    10**9,
    10**12,
    10**30,
)
FRACTIONS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e-300",
    "0.1",
    "0.5",
    "0.99",
    "1",
    "1.5",
    "24",
    "1e9",
    "1e308",
    "1e400",
)
USUAL = {
    "model": (
        "8b",
        "70b",
        "gpt-oss-20b",
        "deepseek-r1",
        "qwen3-30b-a3b",
        "mixtral-8x7b",
        "bge-m3",
        "whisper-large-v3",
        "flux.1-dev",
        "config.json",
        "config2.json",
        "llama-3.2-1b",
    ),
    "gpu": (
        "h100-sxm",
        "rtx-4090",
        "l40s",
        "mi300x",
        "h100-sxm,l40s",
        "tpu-v5e",
        "gaudi3",
        "a100",
        "m4-max",
        "v100",
    ),
    "prefill_gpu": ("h100-sxm", "l40s"),
    "engine": ("vllm", "sglang", "llama.cpp", "tensorrt-llm"),
    "provider": ("aws", "vast,nebius"),
    "precision": ("bf16", "fp8", "int4", "tf32", "fp32", "nvfp4", "q4_k_m", "fp6"),
    "kv_precision": ("bf16", "fp8", "int4", "tf32", "fp32"),
    "rate": ("1e-9", "0.01", "1", "20/s", "6000/min", "1e6"),
    "size": ("1B", "1KiB", "1GiB", "1e18B"),
    "tokens": ("1", "1k", "1T", "1e18"),
    "tokens_per_day": ("1", "1M", "1e17"),
    "budget": ("1", "13.7/h", "1e15", "1e9/month"),
    "own": ("8xh100-sxm", "1xl40s,3xrtx-4090", "999999999xh100-sxm"),
    "ttft_p99": ("1us", "2s", "300d"),
    "tpot_p99": ("1us", "50ms", "1d"),
    "e2e_p99": ("1ms", "1min"),
    "context": ("1", "128k", "10M", "1e9"),
    "host_memory": ("1B", "512GB", "1e9GB"),
    "host_bandwidth": ("1B/s", "100GB/s"),
    "image_size": ("1x1", "1024x768", "64x99999"),
    "items": ("1", "1M", "1e15"),
    "term": ("on-demand,spot", "reserved-3y"),
    "tenancy": ("dedicated,shared,unknown",),
    "region": ("us", "de", "us-east"),
    "deadline": ("1s", "30d", "200d"),
    "length_dist": ("fixed", "uniform:0", "lognormal:5", "lognormal:1e-9"),
    "electricity": ("0.1", "0", "9"),
    "profile": ("chat", "reasoning", "batch"),
    "trace": ("trace.csv",),
    "price_file": ("prices.csv",),
    "residency": ("eu",),
    "cases": ("cases.csv", "empty.csv"),
    "circuit": ("120V/15A", "1V/1A"),
    "as_of": ("2026-01-01", "0001-01-01", "9999-12-31"),
    "shared_memory": ("48KiB", "1e9GB"),
    "framework": ("megatron", "peft"),
    "speculative": ("eagle3", "ngram", "draft:1b"),
    "workload": ("serve", "train", "finetune", "rl", "batch"),
    "room_cooling": ("1W", "1500W", "1e9W"),
    "max_price_age": ("0",),
}
_PRICES = b"provider,accelerator,num_accelerators,term,usd_per_hour,observed_on"
FILES = {
    "empty.json": b"",
    "empty.csv": b"",
    "empty.toml": b"",
    "nul.csv": b"\0" * 100,
    "latin.csv": "provider,é".encode("latin-1"),
    "deep.json": b"[" * 200_000,
    "deep.toml": b"a = " + b"[" * 5000,
    "digits.json": b"9" * 5000,
    "digits.toml": b"a = " + b"9" * 5000,
    "list.json": b"[]",
    "null.json": b"null",
    "object.json": b"{}",
    "nan.json": b'{"kind": NaN}',
    "cell.csv": b'a,b\n"' + b"x" * 200_000 + b'",1\n',
    "config.json": b'{"model_type": "llama", "hidden_size": 1e30, "num_hidden_layers": 1000000000}',
    "config2.json": b'{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 0}',
    "calibration.json": b'{"kind": "calibration", "calibration": {}}',
    "plan.json": b'{"kind": "recommend", "schema_version": 99}',
    "prices.csv": _PRICES + b"\nme,h100-sxm,8,on_demand,20,2026-01-01\n",
    "prices2.csv": _PRICES + b"\nme,h100-sxm,1e9,on_demand,nan,0000-00-00\n",
    "trace.csv": b"arrived_at_s,input_tokens,output_tokens\n0,100,10\n1,200,20\n",
    "trace2.jsonl": b'{"timestamp": -1, "input_length": 1e30}\n',
    "goal.toml": b"[weights]\ncost = 1e308\n",
    "fleet.toml": b"[[pool]]\n",
    "cases.csv": b"case_id,model\n1,x\n",
    "utf16.json": "{}".encode("utf-16"),
    "nccl.txt": b"# nThread 1\n 8 2 float sum -1 1.0 0.0 0.0 0\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory full of strange files."""
    found = tmp_path_factory.mktemp("fuzz")
    for name, content in FILES.items():
        (found / name).write_bytes(content)
    (found / "loop").symlink_to("loop")
    (found / "folder.json").mkdir()
    before = Path.cwd()
    os.chdir(found)
    yield found
    os.chdir(before)


def kind_of(parameter: inspect.Parameter) -> tuple[Any, Any]:
    """Type and declaration of an option."""
    annotation, declared = get_args(parameter.annotation)[:2]
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation, declared


def value_of(draw: random.Random, name: str, annotation: Any, declared: Any) -> str:
    if name in USUAL and draw.random() < 0.8:
        return draw.choice(USUAL[name])
    files = [
        *FILES,
        "loop",
        "folder.json",
        "missing.json",
        "x" * 300 + ".json",
        "no/such/folder.csv",
        "out.json",
        "out.csv",
    ]
    if get_origin(annotation) is Literal:
        return str(draw.choice([*get_args(annotation), *get_args(annotation), "x"]))
    low = getattr(declared, "min", None)
    high = getattr(declared, "max", None)
    if annotation is int:
        near = [number + step for number in (low, high) if number is not None for step in (-1, 0, 1)]
        inside = [n for n in NUMBERS if (low is None or n >= low) and (high is None or n <= high)] or [1]
        return str(draw.choice(draw.choice([near or inside, *[inside] * 6, list(NUMBERS)])))
    if annotation is float:
        inside = [str(low or 0.5), str(high or 2.0), "1", "0.5"]
        return str(draw.choice(draw.choice([inside, inside, inside, list(FRACTIONS)])))
    if annotation is Path:
        return draw.choice(files)
    return draw.choice(draw.choice([list(TEXTS), list(TEXTS[25:60]), files]))


def command_line(draw: random.Random) -> list[str]:
    """A command with some of its options; what it needs is often there, so that more than the parser is tried."""
    known = {name: found for name, found in commands().items() if name not in LEFT_OUT}
    slow = [name for name in known if name in SLOW]
    quick = [name for name in known if name not in SLOW]
    name = draw.choice(slow if draw.random() < 0.06 else quick)
    found = known[name]
    arguments = name.split()
    own = list(parameters_of(found.inputs))
    names = {parameter.name for parameter in own}
    if draw.random() < 0.8:
        for option, usual in (("model", "8b"), ("gpu", "h100-sxm"), ("rate", "1"), ("file", "trace.csv")):
            if option in names:
                arguments += [usual] if option == "file" else [f"--{option}", usual]
        if "requests" in names and draw.random() < 0.8:
            arguments += ["--requests", "50"]
    chosen = draw.sample(own, min(len(own), draw.choice([0, 1, 1, 2, 2, 3, 5])))
    if draw.random() < 0.3:
        chosen += draw.sample(list(parameters_of(SharedOptions)), 1)
    for parameter in chosen:
        annotation, declared = kind_of(parameter)
        if type(declared).__name__ == "ArgumentInfo":
            arguments.append(value_of(draw, parameter.name, annotation, declared))
            continue
        texts = (getattr(declared, "default", ""), *(getattr(declared, "param_decls", None) or ()))
        long = [text for text in texts if str(text).startswith("--")]
        option = str(long[0]) if long else "--" + parameter.name.replace("_", "-")
        if annotation is bool:
            arguments.append(draw.choice(option.split("/")))
        else:
            arguments.append(f"{option}={value_of(draw, parameter.name, annotation, declared)}")
    return [
        *arguments,
        *draw.choice([[], [], ["--json"], ["-q"], ["-o", "out.html"], ["-o", "out.md"], ["-o", "out.csv"]]),
    ]


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(number=st.integers(0, 2**32))
def one_of_many(ask: Ask, done: Counter[int], number: int) -> None:
    arguments = command_line(random.Random(number + SEED))
    done[ask(arguments)[0]] += 1


def test_any_command_line_ends_in_a_documented_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    done: Counter[int] = Counter()
    one_of_many(ask, done)
    assert sum(done.values()) > CASES // 2, done
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - at_first < MOST_BYTES


def test_true_processes_end_in_documented_codes(folder: Path, check: Check) -> None:
    draw = random.Random(SEED)
    for _ in range(PROCESSES):
        arguments = [text for text in command_line(draw) if "\0" not in text and "\ud800" not in text]
        done = subprocess.run(
            [sys.executable, "-m", "advisor", *arguments],
            cwd=folder,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        )
        check(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_every_number_has_an_upper_limit() -> None:
    without = [
        f"{name} --{parameter.name}"
        for name, found in commands().items()
        for parameter in [*parameters_of(found.inputs), *parameters_of(SharedOptions)]
        if kind_of(parameter)[0] in (int, float) and getattr(kind_of(parameter)[1], "max", None) is None
    ]
    assert without == []


OF_NAMES = {"catalog prices --region", "catalog parts --name"}
"""Texts that filter: one that nothing has finds nothing."""


@pytest.mark.parametrize("name", sorted(set(commands()) - LEFT_OUT))
def test_amounts_that_are_typed_as_text_have_limits_too(name: str, ask: Ask) -> None:
    own = parameters_of(commands()[name].inputs)
    given = {option.name for option in own}
    usual = {"model": "8b", "gpu": "l4", "rate": "1", "requests": "20"}
    words = [*name.split(), *(f"--{option}={usual[option]}" for option in sorted(given & set(usual)))]
    for parameter in own:
        kind, declared = kind_of(parameter)
        option = "--" + parameter.name.replace("_", "-")
        if kind is str and type(declared).__name__ != "ArgumentInfo" and f"{name} {option}" not in OF_NAMES:
            assert ask([*words, f"{option}=1e40"])[0] in (2, 3), option


@pytest.mark.parametrize(
    "command",
    [
        "simulate serve --model 8b --gpu h100-sxm --rate 1 --output-tokens 1 --requests 50",
        "simulate long-context --model 8b --gpu h100-sxm --context 1",
        "simulate adapters --model 8b --gpu h100-sxm --rate 1 --output-tokens 1 --requests 50 --json",
        "build --model 8b --gpu rtx-4090 --output-tokens 1 --json",
        "roofline --model 8b --gpu h100-sxm --weight-dtype tf32",
        "roofline --model 8b --gpu h100-sxm --context 10000000",
        "recommend --model rwkv7-2.9b --gpu h100-sxm --rate 1",
        "simulate serve --model mamba2-2.7b --gpu h100-sxm --rate 1 --requests 50 --speculative ngram --acceptance 0.4",
    ],
)
def test_values_that_a_person_can_type_work(command: str, ask: Ask) -> None:
    code, _, err = ask(command.split())
    assert code == 0, err


@pytest.mark.parametrize(
    "command", ["simulate serve --gpu l4", "recommend", "cost", "simulate adapters --gpu l4"]
)
@pytest.mark.parametrize("model", ["bge-m3", "flux.1-dev", "whisper-large-v3"])
def test_what_makes_no_text_is_not_served_as_text(command: str, model: str, ask: Ask) -> None:
    code, out, err = ask(f"{command} --model {model} --rate 1".split())
    assert (code, out) == (2, "")
    assert f"{model} answers with no text" in err


@pytest.mark.parametrize("command", ["simulate serve", "simulate adapters"])
def test_more_requests_than_a_simulation_lasts_are_refused_at_once(command: str, ask: Ask) -> None:
    began_s = time.process_time()
    code, _, err = ask(f"{command} --model 8b --gpu l4 --rate 0.1 --requests 1000000".split())
    assert code == 2
    assert "--requests 198211" in err
    assert time.process_time() - began_s < 5
