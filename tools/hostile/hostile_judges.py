"""Judges of an answer, of the files that were written, and of scripts that are run among stand-ins."""

import ast
import csv
import html.parser
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from advisor.catalog import engines

CODES: Final = {0, 2, 3, 6}
STUBS: Final = (
    "vllm",
    "python",
    "python3",
    "trtllm-serve",
    "llama-server",
    "lmdeploy",
    "mlx_lm.server",
    "mlx_lm.convert",
    "docker",
    "curl",
    "nginx",
    "srun",
    "sky",
    "kubectl",
    "nvidia-smi",
    "pip",
    "git",
    "hf",
    "cmake",
    "sleep",
    "apt-get",
    "vllm-router",
    "sudo",
)
"""Programs that emitted scripts may start; each is a stand-in that writes down how it was called."""
TOOLS: Final = ("bash", "sh", "seq", "mkdir", "cat", "ls", "wc", "hostname", "cut")
"""Programs of the system that emitted scripts use."""
HELPERS: Final = ("sky", "curl", "nginx", "nvidia-smi", "sleep", "pip", "apt-get")
"""Programs that a start script may call besides the engine."""
END: Final = "<end of the call>"
_STUB: Final = f"""#!/bin/sh
if [ "$1" = - ]; then cat >> "$RECORD.stdin"; fi
printf '%s\\0' "${{0##*/}}" "$@" '{END}' >> "$RECORD"
"""
_NOT_FOUND: Final = f"""() {{ printf "%s\\0" "not found" "$@" "{END}" >> "$RECORD"; }}"""
"""Function that bash calls for a program that it does not find."""
_SHOWN: Final = "\n\t\u00a0\u2009\u202f\u3000"
"""Characters that are not printable by Python's rule and that no reader obeys."""
_TAGS: Final = {"img", "iframe", "object", "embed", "form", "base", "link", "video", "audio"}
_FORGED: Final = re.compile(r"^ {0,2}(?:error|To fix)?:? ?touch pwned\s*$", re.MULTILINE)
"""Line that a name of an input would have written as if it were the program's."""
_ADDRESS: Final = re.compile(r"--?[a-z_-]+|0\.0\.0\.0|\d+")
"""Words that tell an engine its address."""
HELD: Final = {
    "accelerate",
    "axolotl",
    "bitsandbytes",
    "deepspeed",
    "distributed",
    "flash-attn",
    "huggingface_hub",
    "joblib",
    "kernels",
    "llamafactory",
    "llmcompressor",
    "lmdeploy",
    "maxtext",
    "megatron-bridge",
    "mlx-lm",
    "ms-swift",
    "nixl",
    "nvidia-ml-py",
    "openrlhf",
    "pyarrow",
    "ray",
    "sglang-router",
    "torch",
    "torchtitan",
    "torchtune",
    "transformers",
    "triton",
    "trl",
    "unsloth",
    "verl",
    "vllm-bnb-plugin",
    "vllm-router",
    "xtuner",
}
"""Packages of other projects that are named in docs, messages and scripts: each holds its name on the index."""
INSTALL: Final = re.compile(
    r"(?:pip3?|pipx|uv|uvx|uv pip|conda|npm|npx) (?:install|run|add)\b([^\n\"#;&|`)]*)"
)


def is_shown(text: str) -> bool:
    """Whether no character of a text is obeyed by a reader or hidden from one."""
    return not any(not letter.isprintable() and letter not in _SHOWN for letter in text)


def refuse_constant(name: str) -> float:
    """Raise: JSON has no such number."""
    raise AssertionError(f"{name} in JSON")


class _Page(html.parser.HTMLParser):
    """The parts of a page that a browser would act upon."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[str] = []
        self.shown: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("script", "style") else ""
        for name, value in attrs:
            text = (value or "").strip().lower()
            is_address = name in ("href", "src", "action", "xlink:href", "formaction")
            if name.startswith("on") or (
                is_address and text.startswith(("javascript:", "data:text", "http"))
            ):
                self.acts.append(f"{tag} {name}={value}")
            self.shown.append(value or "")
        if tag in _TAGS and not any(name == "rel" and value == "icon" for name, value in attrs):
            self.acts.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._inside = ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.shown.append(data)
        elif "alert(1)" in data:
            try:
                json.loads(data)  # data of a chart, which is text to the script that draws it
            except ValueError:
                self.acts.append(data[:200])


def judge_page(text: str) -> None:
    """Assert that a browser shows every text of a page and acts upon none."""
    page = _Page()
    page.feed(text)
    acts = [act for act in page.acts if not act.startswith(("a href=https://", "a href=http://"))]
    assert not acts, acts
    assert all(map(is_shown, page.shown))


def judge_table(text: str) -> None:
    """Assert that a spreadsheet computes no cell of a table but numbers."""
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")):
                assert len(cell) == 1 or float(cell) is not None
            assert is_shown(cell)


def judge_markdown(text: str) -> None:
    """Assert that Markdown outside code holds no HTML, no picture and no link."""
    outside = "".join(text.split("```")[::2])
    for start in ("<script", "<img", "<svg", "<!--", "](http", "](javascript"):
        assert start not in outside, start


def judge_json(text: str) -> None:
    """Assert that every number of a document is finite."""
    json.loads(text, parse_constant=refuse_constant)


JUDGES: Final = {".html": judge_page, ".csv": judge_table, ".md": judge_markdown, ".json": judge_json}


def judge_answer(words: Sequence[str], code: int, out: str, err: str) -> None:
    """Assert that a command ended as documented and wrote nothing that a terminal obeys."""
    assert code in CODES, f"exit {code}: {err[-1500:]}"
    assert is_shown(out), out[:300]
    assert is_shown(err), err[:300]
    for text in (out, err):
        assert not _FORGED.search(text), text[:600]
    if code in (2, 6):
        assert "error: " in err, err
    if code == 0 and "--json" in words and out.strip():
        judge_json(out)


def judge_files(folder: Path, names: Sequence[str]) -> None:
    """Assert of every file that was written that it shows its texts, and by its kind that none acts."""
    for name in names:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert is_shown(text), name
        assert not _FORGED.search(text), name
        JUDGES.get(path.suffix, lambda _: None)(text)


def names_to_install(text: str) -> Iterator[str]:
    """Yield what the install lines of a text would install."""
    for line in INSTALL.finditer(text):
        yield from re.sub(r",.*| in a clone.*| {2,}.*", "", line.group(1)).replace("'", " ").split()


def is_safe_to_install(word: str) -> bool:
    """Whether a word of an install line is a file, a sealed address or a name that another project holds."""
    name = re.split(r"[=<>\[]", word)[0]
    is_held = word.startswith(("-", ".")) or name in HELD or "requirements" in word
    return is_held or word.endswith(".whl") or "#sha256=" in word


class Sandbox:
    """A folder of stand-ins, the only programs that a script finds."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        for name in STUBS:
            (self.programs / name).write_text(_STUB)
            (self.programs / name).chmod(0o755)
        for name in TOOLS:
            found = shutil.which(name, path="/usr/bin:/bin")
            if found:
                (self.programs / name).symlink_to(found)
        self.record = folder / "record"

    def run(self, words: Sequence[str], folder: Path) -> list[list[str]]:
        """Return the calls of stand-ins that a command makes in a folder, each as its words.

        Raises: AssertionError: the command looked for another program, or ran too long.
        """
        for path in (self.record, self.record.with_name("record.stdin")):
            path.unlink(missing_ok=True)
        environ = {
            "PATH": str(self.programs),
            "HOME": str(folder),
            "RECORD": str(self.record),
            "SLURM_ARRAY_TASK_ID": "0",
            "HF_TOKEN": "secret",
            "BASH_FUNC_command_not_found_handle%%": _NOT_FOUND,
        }
        done = subprocess.run(
            [str(self.programs / words[0]), *words[1:]],
            cwd=folder,
            env=environ,
            check=False,
            timeout=60,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        assert b"syntax error" not in done.stderr, done.stderr
        text = self.record.read_text(encoding="utf-8", errors="replace") if self.record.exists() else ""
        calls: list[list[str]] = [[]]
        for word in text.split("\0")[:-1]:
            if word == END:
                calls.append([])
            else:
                calls[-1].append(word)
        assert not any(call[:1] == ["not found"] for call in calls), calls
        return calls[:-1]

    def stdin(self) -> str:
        """Return what the last command wrote to a stand-in of Python."""
        path = self.record.with_name("record.stdin")
        return path.read_text(encoding="utf-8") if path.exists() else ""


def in_container(word: str, model: str) -> str:
    """Return a word of a command as it is in a container, where a local model is mounted."""
    if word == model and model.startswith(("/", "../")):
        return "/model"
    return f"/plan/{word[2:]}" if word.startswith("./") else word


def with_mounted_adapters(argv: Sequence[str]) -> list[str]:
    """Return the words of a command with the folder of adapters where a container mounts it."""
    words = list(argv)
    if "--lora-modules" in words:
        at = words.index("--lora-modules") + 1
        words[at] = f"{words[at].partition('=')[0]}=/adapters"
    return words


def is_one_of(call: Sequence[str], commands: Sequence[Sequence[str]]) -> bool:
    """Whether a call is one of the commands; see `has_command`."""
    return any(has_command(call, argv) for argv in commands)


def has_command(call: Sequence[str], argv: Sequence[str]) -> bool:
    """Whether a call is the command and, after it, nothing but an options file and an address."""
    rest = call[len(argv) :]
    return list(call[: len(argv)]) == list(argv) and all(
        _ADDRESS.fullmatch(word) or word.endswith("engine.yaml") for word in rest
    )


def judge_scripts(
    sandbox: Sandbox, folder: Path, form: str, commands: Sequence[Sequence[str]], model: str
) -> None:
    """Run the scripts of one model and assert that they start its engine with its words, and nothing else."""
    inside = [[in_container(word, model) for word in with_mounted_adapters(argv)] for argv in commands]
    num_started = 0
    for script in sorted([*folder.rglob("*.sh"), *folder.rglob("*.sbatch")]):
        subprocess.run(["/bin/bash", "-n", script.name], cwd=script.parent, check=True, capture_output=True)
        calls = sandbox.run(["bash", script.name], script.parent)
        if script.name == "quantise.sh":
            judge_recipe(sandbox, calls, model)
            continue
        for call in calls:
            num_started += judge_call(call, commands, inside, model)
    for manifest in folder.rglob("*.yaml"):
        num_started += judge_manifest(sandbox, manifest, form, inside, model)
    assert num_started, f"no start of {commands} in {[path.name for path in folder.rglob('*')]}"


def judge_recipe(sandbox: Sandbox, calls: Sequence[Sequence[str]], model: str) -> None:
    """Assert that a recipe names the model as one word, or as one text of its program."""
    code = sandbox.stdin()
    named = [word for call in calls for word in call if word == model]
    if code:
        tree = ast.parse(code)
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called <= {"oneshot", "QuantizationModifier", "GPTQModifier"}, called
        named += [text for text in texts if text == model]
    assert named, calls


def judge_call(
    call: Sequence[str], commands: Sequence[Sequence[str]], inside: Sequence[Sequence[str]], model: str
) -> int:
    """Assert that a call is a command of the engine or a helper's; return 1 if it starts the engine, else 0."""
    if call[0] == "docker":
        at = call.index("--entrypoint")
        # An image may hold its program off the search path.
        held = {engines.by_id(name).flags.image_program for name in engines.all_ids()} - {""}
        program = Path(call[at + 1]).name if call[at + 1] in held else call[at + 1]
        assert is_one_of([program, *call[at + 3 :]], inside), call
        return 1
    if call[0] == "srun":
        started = itertools.dropwhile(re.compile(r"--cpus-per-task=\d+").fullmatch, call[1:])
        assert is_one_of(list(started), commands), call
        return 1
    if call[0] in HELPERS or "router" in " ".join(call[:3]) or "disaggregated" in call:
        assert not any("touch pwned" in word or word == model for word in call), call
        return 0
    assert is_one_of(call, commands), call
    return 1


def judge_manifest(
    sandbox: Sandbox, path: Path, form: str, inside: Sequence[Sequence[str]], model: str
) -> int:
    """Assert that a manifest is data and starts the engine with its words; return how often it does."""
    started = 0
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        assert isinstance(document, dict), path.name
        if form == "compose" and "services" in document:
            for name, service in document["services"].items():
                if not name.endswith("router"):
                    words = [
                        *service["entrypoint"],
                        *(word.replace("$$", "$") for word in service["command"]),
                    ]
                    assert is_one_of(words, inside), words
                    assert not re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", " ".join(service["command"]))
                    started += 1
        elif document.get("kind") in ("Deployment", "StatefulSet"):
            containers = document["spec"]["template"]["spec"]["containers"]
            (command,) = [each["command"] for each in containers if each["name"] == "engine"] or [None]
            if command is not None:
                words = [word.replace("$$(", "$(") for word in command]
                assert is_one_of(words, inside), words
                started += 1
        elif isinstance(document.get("run"), str):
            calls = sandbox.run(["bash", "-c", document["run"]], path.parent)
            for call in calls:
                started += judge_call(call, inside, inside, model)
    return started


def judge_printed(sandbox: Sandbox, folder: Path, launch: Mapping[str, Any]) -> None:
    """Assert that the printed command is one call of the engine with its words."""
    if launch["config"]:
        assert shlex.split(launch["command"])[: len(launch["argv"])] == launch["argv"]
        return
    assert shlex.split(launch["command"]) == launch["argv"]
    assert sandbox.run(["bash", "-c", launch["command"]], folder) == [launch["argv"]]


def files_below(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {
        os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118
        for place, _, names in os.walk(folder)
        for name in names
    }
