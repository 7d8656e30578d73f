"""The eight kinds of hostile cases: each makes one case from a seed, asks the program and judges what came of it."""

import functools
import json
import os
import random
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hostile_inputs import CONFIG, EARLIER, LISTS, RECOMMEND, Input, inputs, write_companions
from hostile_judges import (
    Sandbox,
    files_below,
    is_safe_to_install,
    judge_answer,
    judge_files,
    judge_printed,
    judge_scripts,
    names_to_install,
)
from hostile_options import option_of_pools
from hostile_texts import PIECES, Place, draw_text, places, replace_text

from advisor.ask.inputs import parameters_of
from advisor.ask.options import Effect, SharedOptions
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.part_prices import bundled_part_prices
from advisor.cli.command import commands
from advisor.emit.formats import emit_files
from advisor.sweep.journal import Header, Journal
from advisor.workstation.listing import read_listing

FORMS: Final = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
SUFFIXES: Final = ("", "", ".html", ".csv", ".md", ".json", ".svg")
ENGINES: Final = ("vllm", "sglang", "trt-llm", "llama.cpp")
_PLACES_OF_AN_INPUT: Final = 10
"""Number of places up to which every one of an input is tried."""
_FOLDERS: Final = (
    *("MyModel", "my model", "llama-3.1-8b", "Llama-3.1-8B", "gpt-oss-20b", "a'b", "a$b", "deep/er/m", "x:y"),
    *("~m", "-m"),
)
"""Folders of local models: names of the catalog, and names that a shell or Docker acts upon."""
_ODD_VALUES: Final = (
    *(None, -1, 0, 0.5, 1e300, 10**30, True, "", "x", "NaN"),
    *([], {}, [[1]], {"a": 1}, [None]),
)
"""Values of JSON that no reader of a config.json expects."""
_ODD_FIELDS: Final = (
    *CONFIG,
    *("text_config", "vision_config", "quantization_config", "block_configs", "head_dim", "num_experts"),
)
_ODD_ROWS: Final = (
    *({}, [], None, 3, "x", {"status": {}}, {"status": "ok", "x": {}}, {"status": None}, {"status": "ok"}),
    *({"status": "ok", "time_s": "x"}, {"status": "ok", "time_s": None}),
)
"""Rows of a journal, most of them damaged."""
_COUNTS: Final = (
    *("-3", "0", "00", "100000", "1000", "99", "2", "1", "2.5", "1e3", "+2", "--2", "0x2", "9" * 40, "-0"),
    *("\u00b2", "\u0663", "\u00bd", "\uff12", "\u22123", "1_0", "1,000", "NaN", "inf"),
)
_AMOUNTS: Final = (
    *("-$5", "$-5", "$0", "$2,000", "$2000", "$1e9", "-USD 5", "$" + "9" * 30, "$nan", "\u2212$5", "$ -5"),
    *("USD -5", "$1.2.3", "(5)", ""),
)
_SPELLINGS: Final = (
    *("{count}x {name}", "{count} x {name}", "{name} x{count}", "{name} x {count}", "{count}X{name}"),
    *(
        "{count}\u00d7 {name}",
        "{count} {name}",
        "{count} pcs {name}",
        "{name} (x{count})",
        "qty {count} {name}",
    ),
)
"""Ways in which a list says how many of a part there are."""
_PART_OF_WHOLE_ANSWERS: Final = 0.05
"""Fraction of the lists of parts that are judged as machines."""
_TABLES: Final = (
    "p.csv",
    "api.csv",
    "parts.csv",
    "b.txt",
    "t.csv",
    "m/config.json",
    "sweep.csv",
    "study.toml",
)
"""Inputs whose texts come back in cells."""
_OPTIONAL: Final = (
    *("pyarrow", "joblib", "dask", "ray", "torch", "triton", "pynvml", "matplotlib", "plotext", "numba"),
    "distributed",
)
"""Optional packages; without one a message says how it is installed."""
QUESTIONS: Final = {
    "recommend": f"{RECOMMEND} --rate 1 --model 8b",
    "cost": "cost --model 8b --gpu l40s --rate 1",
    "catalog refresh": "catalog refresh --dry-run",
    "roofline": "roofline --model 8b --gpu l40s",
    "simulate serve": "simulate serve --model 8b --gpu l40s --rate 1 --requests 20",
    "simulate collective": "simulate collective --gpu h100 --bytes 1MiB",
    "simulate fleet": "simulate fleet fleet.toml",
    "sweep": "sweep study.toml --workers 1 -o out.csv",
    "build check": "build check b.txt",
    "replay": "replay other.json",
    "calibrate": "calibrate probe.json",
}
"""Whole questions of commands, so that a folder is the only thing that can stop them."""
Answer = tuple[int, str, str]


@dataclass(frozen=True)
class Case:
    """A case in an empty folder, which is the working directory."""

    draw: random.Random
    folder: Path
    sandbox: Sandbox
    main: Callable[[list[str]], Answer]
    number: int = 0

    def ask(self, words: list[str]) -> Answer:
        """Return exit code, stdout and stderr of a command, which end as documented and install nothing unknown."""
        found = self.main(words)
        judge_answer(words, *found)
        for word in names_to_install(found[2] if "--json" in words else found[1] + found[2]):
            assert is_safe_to_install(word), word
        return found

    def write(self, name: str, text: str) -> None:
        """Write a file as it is spelled, with characters that no encoding has as question marks."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))


def text_becomes_code(case: Case) -> None:
    """Put a hostile text into one place of one input, ask a question that reads it, and judge every form."""
    draw = case.draw
    write_companions(case.folder)
    text = draw_text(draw)
    source = draw.choice(("file",) * 6 + ("folder", "folder", "variable", "option", "pools"))
    given = draw.choice(inputs())
    words = shlex.split(draw.choice(given.questions))
    match source:
        case "file":
            case.write(given.file, replace_text(given.content, given.suffix, text, draw))
        case "folder":
            name = _file_name(text)
            (case.folder / "m").rename(case.folder / name)
            words = [*shlex.split(RECOMMEND), "--rate", draw.choice(("1", "400")), "--model", f"./{name}"]
        case "variable":
            taken = ("PROVIDER", "REGION", "PROFILE", "MODEL", "TERM", "PRICE_FILE", "NOTHING")
            os.environ[f"ADVISOR_{draw.choice(taken)}"] = _encodable(text)
        case "pools":
            judge_pools(case, text)
            return
        case _:
            option = draw.choice(("provider", "region", "profile", "engine", "precision", "gpu", "term"))
            words = [
                *shlex.split(RECOMMEND),
                "--rate",
                "1",
                "--model",
                "./m",
                f"--{option}={_encodable(text)}",
            ]
    answer_in_a_form(case, words)


def place_holds_data(case: Case) -> None:
    """Put a hostile text into the place of this number, and judge a question that reads it, each in another form."""
    given, place = every_place()[case.number]
    write_companions(case.folder)
    text = case.draw.choice(PIECES) if case.number % 3 else draw_text(case.draw)
    case.write(given.file, place(text))
    answer_in_a_form(case, shlex.split(given.questions[case.number % len(given.questions)]))


@functools.cache
def every_place() -> tuple[tuple[Input, Place], ...]:
    """Return every place of every input that holds a text, of large documents every nth one."""
    found = list[tuple[Input, Place]]()
    for given in inputs():
        values, names = places(given.content, given.suffix)
        for some in (values, names):
            step = max(1, len(some) // _PLACES_OF_AN_INPUT)
            found += [(given, place) for place in some[::step]]
    return tuple(found)


def judge_pools(case: Case, text: str) -> None:
    """Write pools that load a model of a hostile path in every form, and judge the files."""
    path = draw_place(case.draw, text)
    try:
        option = option_of_pools(path, case.draw)
    except InputFileError:
        assert not path.isprintable()
        return
    name = path.rpartition("/")[2]
    for form in FORMS:
        try:
            files = emit_files(name, option, form)  # type: ignore[arg-type]
        except AdvisorError:
            if ":" in path or form == "skypilot" or not path.isprintable():
                continue
            raise
        for file, content in files.items():
            case.write(f"{form}/{file}", content)
        judge_files(case.folder / form, sorted(files))
        commands = [part.started.argv for part in option.parts or (option,)]
        judge_scripts(case.sandbox, case.folder / form, form, commands, path)


def draw_place(draw: random.Random, text: str) -> str:
    """Return a path of a local model whose last part is the text."""
    return f"{draw.choice(('./', '../', '/srv/'))}{_file_name(text)}"


def answer_in_a_form(case: Case, words: list[str]) -> None:
    """Ask a question with an output or with files that start the answer, and judge what was written."""
    draw = case.draw
    allowed = {"plan.json"}
    before = files_below(case.folder)
    form = draw.choice(FORMS)
    emits = words[0] == "recommend" and draw.random() < 0.7
    if emits:
        words = [*words, "--emit", form, "--emit-dir", "q", "--json"]
    elif words[0] == "sweep" and "--pareto" not in words:
        words = [*words, "-o", "out.csv"]
        allowed |= {"out.csv", "out.csv.journal", "out.csv.prices"}
    elif suffix := draw.choice(SUFFIXES):
        words = [*words, "-o", f"out{suffix}"]
        allowed.add(f"out{suffix}")
    code, out, _ = case.ask(words)
    written = files_below(case.folder) - before
    assert all(name in allowed or (emits and name.startswith("q/")) for name in written), written
    judge_files(case.folder, sorted(written))
    if emits and code == 0:
        judge_start(case, json.loads(out), form)


def judge_start(case: Case, answer: dict[str, Any], form: str) -> None:
    """Judge the printed commands and the emitted files of the first option."""
    (option, *_) = answer["options"]
    launches = [part["launch"] for part in option["parts"] or [option]]
    for launch in launches:
        judge_printed(case.sandbox, case.folder, launch)
    before = files_below(case.folder)
    model = launches[0]["checkpoint"]["repository"]
    judge_scripts(case.sandbox, Path("q").resolve(), form, [launch["argv"] for launch in launches], model)
    made = {Path(name).name for name in files_below(case.folder) - before}
    assert made <= {"0", "nginx.conf"}, made
    for name, text in answer["deployment"]["files"].items():
        for word in names_to_install(text):
            assert is_safe_to_install(word), f"{name}: {word}"


def local_path_is_named(case: Case) -> None:
    """Give a local model by one of many spellings of its path, and judge that every command starts just that."""
    draw = case.draw
    name = draw.choice(_FOLDERS)
    named = draw.choice(("", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", name))
    work = case.folder / "work"
    work.mkdir()
    os.chdir(work)
    case.write(f"work/{name}/config.json", json.dumps(CONFIG | {"_name_or_path": named}))
    case.write(f"{name}/config.json", json.dumps(CONFIG | {"_name_or_path": named}))
    typed, shown = draw.choice(
        (
            (f"./{name}", f"./{name}"),
            (f"./{name}/", f"./{name}"),
            (f"./{name}/config.json", f"./{name}"),
            (f".//{name}", f"./{name}"),
            (f"../{name}", f"../{name}"),
            (f"{work}/{name}", f"{work}/{name}"),
        )
    )
    form = draw.choice(FORMS)
    words = [
        "recommend",
        "--fast",
        "--gpu",
        "l40s",
        "--top",
        "1",
        "--emit",
        form,
        "--emit-dir",
        "q",
        "--json",
    ]
    if draw.random() < 0.25:
        case.write("work/other/config.json", json.dumps(CONFIG | {"hidden_size": 4096}))
        code, out, err = case.ask([*words, "--models", f"{typed}@1/s,./other@2/s"])
        assert code == 0 or ":" in name or form == "skypilot", err
        if code == 0:
            judge_several(case, json.loads(out), form, {shown, "./other"})
        return
    one_path_is_named(case, words, typed, shown, form)


def one_path_is_named(case: Case, words: list[str], typed: str, shown: str, form: str) -> None:
    """Ask for one model, and judge that its commands start it from its own path."""
    draw = case.draw
    engine = draw.choice(ENGINES)
    precision = draw.choice(("", "fp8", "int4", "int8", "bf16"))
    words += ["--engine", engine, "--rate", draw.choice(("1", "400")), "--model", typed]
    words += ["--precision", precision] if precision else []
    code, out, err = case.ask(words)
    if code:
        is_refused = "colon" in err or "nothing" in err or "no " in err
        assert is_refused, err
        return
    answer = json.loads(out)
    launch = answer["options"][0]["launch"]
    assert launch["checkpoint"]["repository"] == shown, launch
    assert "all names were read in a source" not in answer["deployment"]["files"]["README.md"]
    if launch["checkpoint"]["origin"] not in ("quantise first", "convert first"):
        assert shown in launch["argv"], launch["argv"]
    assert not [word for word in launch["argv"] if re.fullmatch(r"[A-Za-z][\w-]*/[\w.-]+", word)], launch[
        "argv"
    ]
    judge_start(case, answer, form)


def judge_several(case: Case, answer: dict[str, Any], form: str, paths: set[str]) -> None:
    """Judge that each of several models is started by its own path, counted from the folder of the plan."""
    option = answer["options"][0]
    parts = {part["launch"]["checkpoint"]["repository"] for part in option["parts"]}
    assert parts == paths, parts
    files = answer["deployment"]["files"]
    assert "all names were read in a source" not in "".join(files.values())
    judge_files(case.folder / "work" / "q", sorted(files))
    if form not in ("command", "slurm"):
        return
    started = set()
    for script in sorted([*case.folder.rglob("machine-*.sh"), *case.folder.rglob("*.sbatch")]):
        for call in case.sandbox.run(["bash", script.name], script.parent):
            started |= {word for word in call if word in paths}
    assert started == {
        path
        for path, part in ((one["launch"]["checkpoint"]["repository"], one) for one in option["parts"])
        if path in part["launch"]["argv"]
    }, started


def folder_decides(case: Case) -> None:
    """Fill the folder with what a stranger could leave there, and judge that nothing is written, removed or run."""
    draw = case.draw
    write_companions(case.folder)
    settable = effects()
    name, option = draw.choice(settable)
    spelled = draw.choice(
        (option, option.replace("-", "_"), option.upper() if draw.random() < 0.1 else option)
    )
    value = draw.choice(
        ('"victim"', '"q"', '"../victim"', "true", "1", '["victim"]', '"victim.json"', '"on"')
    )
    table = draw.choice((f"[{name.replace(' ', '.')}]", "", f"[{name.split()[0]}]"))
    lines = [table, f"{draw.choice((spelled, json.dumps(spelled)))} = {value}"]
    if draw.random() < 0.2:
        lines = [f"{'.'.join((*name.split(), spelled))} = {value}"]
    if draw.random() < 0.2:
        lines = [f"{name.split()[0]} = {{ {spelled} = {value} }}"]
    text = "\n".join(lines) + "\n"
    file = draw.choice(("advisor.toml", "advisor.toml", "study"))
    words = shlex.split(QUESTIONS.get(name, name))
    words += draw.choice(([], ["--quiet"], ["--no-input"], ["--offline"]))
    if file == "study":
        case.write(
            "study.toml", f'command = "{name}"\n[base]\n{spelled} = {value}\n[grid]\nbytes = ["1MiB"]\n'
        )
        words = ["sweep", "study.toml", "--workers", "1", "-o", "out.csv"]
    else:
        case.write("advisor.toml", text)
    case.write("victim", "kept")
    case.write("victim.json", "{}")
    case.write("kept/prices/vast.csv", "kept")
    os.environ["ADVISOR_CACHE_DIR"] = str(case.folder / "kept")
    for module in ("numpy", "yaml", "sitecustomize", "advisor", "joblib", "pyarrow", "tomllib"):
        case.write(f"{module}.py", "open('pwned', 'w').close()\n")
    before = {path: (case.folder / path).read_bytes() for path in files_below(case.folder)}
    code, _, err = case.ask(words)
    after = {path: (case.folder / path).read_bytes() for path in files_below(case.folder)}
    is_typed = words[0] == "sweep"
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert all(is_typed and code == 0 and path.startswith("out.csv") for path in changed), (
        words,
        text,
        changed,
    )
    assert code == 2 or file == "study" or (is_typed and option == "output"), (words, text, err)


def effects() -> list[tuple[str, str]]:
    """Return every option with an effect besides reading, with its command."""
    return sorted(
        (one.name, parameter.name.replace("_", "-"))
        for one in commands().values()
        for parameter in (*parameters_of(one.inputs), *parameters_of(SharedOptions))
        if one.effects.get(parameter.name, Effect.READS) is not Effect.READS
    )


def parsing_is_bounded(case: Case) -> None:
    """Write a file that costs as much as one of its size can, and ask a question that reads it."""
    draw = case.draw
    write_companions(case.folder)
    count = draw.choice((100, 1000, 5000, 20_000))
    given = draw.choice(inputs())
    match given.suffix:
        case ".toml":
            text = _costly_toml(count, draw)
        case ".json" | ".journal":
            text = _costly_json(given.content, count, draw)
        case _:
            text = _costly_lines(given.content, count, draw)
    case.write(given.file, text)
    answer_in_a_form(case, shlex.split(draw.choice(given.questions)))


def _costly_toml(count: int, draw: random.Random) -> str:
    """Return keys, tables and texts that a parser of TOML takes long for, `count` times each."""
    return draw.choice(
        (
            ".".join("a" * count) + " = 1",
            "x = { " + ", ".join(f"{'.'.join('a' * 15)}{i} = 1" for i in range(count // 10)) + " }",
            """x = {a = '''""'"''', """ + ".".join("b" * count) + " = 1}",
            """x = {a = \"\"\"''"'\"\"\", """ + ".".join("b" * count) + " = 1}",
            "[" * count + "]" * count,
            "x = " + "[" * count + "]" * count,
            "x = " + "{a=" * count + "1" + "}" * count,
            "".join(f"[a{i}.b.c.d]\n" for i in range(count)),
            "".join("[[a]]\n" for _ in range(count)),
            "x = " + "9" * count,
            "x = 1e" + "9" * count,
            'x = "' + "\\u0041" * count + '"',
            'x = """' + "\\\n" * count + '"""',
            "x = [" + '"RTX 5090",' * count + "]",
            "parts = [" + '"RTX 5090",' * count + "]",
            "x = '''" + "'" * count,
            "#" * count,
            "x = 0x" + "f" * count,
            "x = 2020-01-01T00:00:00." + "0" * count,
        )
    )


def _costly_json(content: str, count: int, draw: random.Random) -> str:
    """Return documents that nest, repeat or list `count` times."""
    return draw.choice(
        (
            "[" * count,
            "[" * (count // 10) + "]" * (count // 10),
            '{"a":' * count + "1" + "}" * count,
            '{"a":' * 900 + "1" + "}" * 900,
            "[" + "{}," * count + "{}]",
            json.dumps({str(i): {} for i in range(count)}),
            "9" * count,
            '"' + "\\u0041" * count + '"',
            json.dumps(CONFIG | {"num_hidden_layers": count * 1000}),
            json.dumps(CONFIG | {"layer_types": ["full_attention"] * count, "num_hidden_layers": count}),
            json.dumps(CONFIG | {"_name_or_path": "x" * count}),
            json.dumps(CONFIG | {"hybrid_override_pattern": "M" * count, "num_hidden_layers": count}),
            json.dumps(CONFIG | {"hidden_size": 10 ** draw.randint(1, 300)}),
            json.dumps(CONFIG | {f"a{i}": i for i in range(count)}),
            content[:-2] + " " * count + content[-2:],
        )
    )


def _costly_lines(content: str, count: int, draw: random.Random) -> str:
    """Return rows and cells of a table or a list that repeat `count` times."""
    lines = content.splitlines()
    return draw.choice(
        (
            "\n".join([*lines[:-1], *[lines[-1]] * (count // 10)]),
            "\n".join(
                [
                    *lines[:-1],
                    *(lines[-1].replace("l40s", "h100").replace("20", str(i)) for i in range(count // 10)),
                ]
            ),
            "\n".join([lines[0], ("x" * count) + lines[-1]]),
            "\n".join([lines[0], lines[-1].replace("1", "1" * count)]),
            lines[0] + ",x" * count,
            "\n" * count,
            "#" * count + "\n" + content,
            '"' * count,
            content + '"' + "x\n" * count,
            "|" * count,
            "x" * count,
            "(" * count,
            "RTX 5090 " * count,
            "\n".join(["RTX 5090"] * count),
        )
    )


def program_fails(case: Case) -> None:
    """Ask ordinary questions with values that are legal and odd, and damaged files: no internal error."""
    draw = case.draw
    write_companions(case.folder)
    if draw.random() < 0.35:
        odd = draw.choice(_ODD_VALUES)
        config: dict[str, Any] = dict(CONFIG)
        for _ in range(draw.choice((1, 1, 2))):
            config[draw.choice(_ODD_FIELDS)] = odd
        case.write("m/config.json", json.dumps(config))
        model = "./m"
    else:
        model = draw.choice(models.all_ids())
    if draw.random() < 0.15:
        header = (EARLIER / "sweep.csv.journal").read_text(encoding="utf-8").splitlines()[0]
        entry = {"id": draw.choice(("d38c378d1a2025f7", "x", 3)), "row": draw.choice(_ODD_ROWS)}
        case.write("out.csv.journal", f"{header}\n{json.dumps(entry)}\n")
        case.ask(["sweep", "study.toml", "--workers", "1", "-o", "out.csv", "--resume", "-q"])
        return
    gpu = draw.choice(("l40s", "h100-sxm", "h200-sxm", "mi300x", "rtx-4090", "tpu-v5e", "cpu"))
    number = draw.choice(
        ("0", "0.5", "1", "1.5", "2", "7", "4096", "1e3", "1e6", "-1", "1e30", "nan", "inf", "1k", "")
    )
    words = shlex.split(
        draw.choice(
            (
                f"cost --model {model} --gpu {gpu} --rate 1",
                f"cost --model {model} --gpu {gpu} --rate={number or 1}",
                f"simulate long-context --model {model} --gpu {gpu} --context={number or 1}",
                f"simulate serve --model {model} --gpu {gpu} --rate 1 --requests 20",
                f"simulate serve --model {model} --gpu {gpu} --rate={number or 1} --requests 20",
                f"simulate serve --model {model} --gpu {gpu} --concurrency={number or 1} --requests 20",
                f"simulate adapters --model {model} --gpu {gpu} --rate 1 --requests 20",
                f"roofline --model {model} --gpu {gpu} --context={number or 1}",
                f"recommend --fast --model {model} --gpu {gpu} --rate 1 --top 1",
                f"recommend --fast --model {model} --gpu {gpu} --rate={number or 1} --top 1",
                f"catalog show {model}",
                f"simulate train --model {model} --gpu {gpu} --gpus 8",
                f"recommend --workload train --model {model} --gpu {gpu} --gpus 8 --tokens={number or 1}",
            )
        )
    )
    case.ask([*words, *draw.choice(([], ["--json"]))])


def counts_make_no_sense(case: Case) -> None:
    """Write a part with a count or a price of any spelling, and judge that it is sane or refused."""
    draw = case.draw
    number = draw.choice(_COUNTS)
    money = draw.choice(_AMOUNTS)
    name = draw.choice(("RTX 5090", "Ryzen 9 9950X", "32GB DDR5", "4TB NVMe", "case"))
    count = draw.choice(_SPELLINGS).format(count=number, name=name)
    line = f"{count} {money}".strip() if draw.random() < 0.6 else f"{name} {money}"
    where = draw.choice(("part", "txt", "toml", "md", "table"))
    words = ["build", "check", "--json", "--no-input"]
    match where:
        case "part":
            words += [f"--part={line}", "--part", "Ryzen 9 9950X"]
        case "txt":
            case.write("b.txt", f"RTX 5090\n{line}\n")
            words.append("b.txt")
        case "toml":
            case.write("b.toml", f"parts = {json.dumps(['RTX 5090', line], ensure_ascii=False)}\n")
            words.append("b.toml")
        case "md":
            case.write(
                "b.md", LISTS["b.md"].replace("RTX 5090", f"{number}x RTX 5090").replace("$500", money)
            )
            words.append("b.md")
        case _:
            quantity = draw.choice((-3, 0, 100_000, 2, 2.5, "2", True, [1]))
            price = draw.choice((-5, 0, 1e30, 2000, "x", True))
            written = {"category": "gpu", "name": "RTX 5090", "quantity": quantity, "price_usd": price}
            rows = [f"{key} = {json.dumps(value)}" for key, value in written.items()]
            case.write("b.toml", "\n".join(["[[part]]", *rows, ""]))
            words.append("b.toml")
    if draw.random() < _PART_OF_WHOLE_ANSWERS:
        code, out, err = case.ask(words)
        assert code != 2 or "To fix:" in err, err
        bill = json.loads(out)["build"]["parts"] if code != 2 else []
    else:  # judging a machine takes a second, and reading its list a few milliseconds
        typed = [word.removeprefix("--part=") for word in words if word.startswith("--part=")]
        bill = _bill(Path(words[-1]) if not typed else None, typed)
    for row in bill:
        assert isinstance(row["quantity"], int), (line, row)
        assert 1 <= row["quantity"] <= 99, (line, row)
        assert row["unit_price_usd"] is None or 0 <= row["unit_price_usd"] < 1e7, (line, row)


def _bill(path: Path | None, texts: list[str]) -> list[dict[str, Any]]:
    """Return the bill of a list of parts; empty if the list is refused, with what would mend it."""
    try:
        listing = read_listing(path, bundled_part_prices(), texts)
    except AdvisorError as error:
        if not error.fix:
            raise
        return []
    return [{"quantity": row.quantity, "unit_price_usd": row.unit_price_usd} for row in listing.bill]


def what_leaves(case: Case) -> None:
    """Write answers through links, in forms that no answer has, while a sweep runs, and with hostile cells."""
    draw = case.draw
    write_companions(case.folder)
    match draw.choice(("link", "link", "form", "journal", "cells", "cells")):
        case "cells":
            given = draw.choice([each for each in inputs() if each.file in _TABLES])
            case.write(given.file, replace_text(given.content, given.suffix, draw_text(draw), draw))
            words = shlex.split(draw.choice(given.questions))
            before = files_below(case.folder)
            name = draw.choice(("out.csv", "out.html", "out.md"))
            case.ask([*words, "-o", "out.csv" if words[0] == "sweep" and "--pareto" not in words else name])
            judge_files(case.folder, sorted(files_below(case.folder) - before - {"out.csv.journal"}))
        case "form":
            case.write("cases.csv", "case_id\n")
            name = draw.choice(("x.csv", "x.svg", "x.parquet", "x.xlsx", "x", "x.json.gz", "X.CSV", ".csv"))
            command = draw.choice(("validate serving", "validate collectives", "validate training"))
            code, _, err = case.ask([*command.split(), "cases.csv", "-o", name])
            assert code in (2, 6), (name, err)
            assert not (case.folder / name).exists()
        case "journal":
            header = Header("simulate collective", "1", "1", "2026-11-20", 0)
            with Journal(case.folder / "out.csv.journal", header, keep=False) as journal:
                journal.add("a", {"status": "ok"})
                before = (case.folder / "out.csv.journal").read_bytes()
                more = draw.choice(([], ["--resume"], ["--force"], ["-q"]))
                code, _, err = case.ask(["sweep", "study.toml", "-o", "out.csv", "--workers", "1", *more])
                assert code == 2, err
                assert "remove" not in err, err
                assert more == ["--force"] or "wait" in err, err
                assert (case.folder / "out.csv.journal").read_bytes() == before
        case _:
            outside = case.folder / "outside"
            outside.mkdir()
            (outside / "rc").write_text("kept")
            mine = case.folder / "mine"
            mine.mkdir()
            target = draw.choice(
                ("../outside/rc", str(outside / "rc"), "../outside/new", "../outside", "hop")
            )
            (mine / "hop").symlink_to("../outside/rc")
            option, name, words = draw.choice(
                (
                    ("-o", f"out{draw.choice(SUFFIXES[2:])}", "roofline --model 8b --gpu l40s"),
                    ("-o", "out.csv", "catalog prices --gpu l40s"),
                    ("-o", "out.csv", "sweep study.toml --workers 1"),
                    ("-o", "out.csv.journal", "sweep study.toml --workers 1"),
                    ("--plan", "plan.json", f"{RECOMMEND} --rate 1 --model 8b"),
                    ("--records", "r.csv", "simulate serve --model 8b --gpu l40s --rate 1 --requests 20"),
                    ("--emit-dir", "start.sh", f"{RECOMMEND} --rate 1 --model 8b --emit command"),
                    ("--emit-dir", "README.md", f"{RECOMMEND} --rate 1 --model 8b --emit k8s"),
                )
            )
            (mine / name).symlink_to(target)
            shown = "mine" if option == "--emit-dir" else f"mine/{name.removesuffix('.journal')}"
            code, _, err = case.ask([*shlex.split(words), option, shown])
            assert code == 2, err
            assert "link" in err or "folder" in err, err
            assert {path.name for path in outside.iterdir()} == {"rc"}
            assert (outside / "rc").read_text() == "kept"


def unknown_name_is_installed(case: Case) -> None:
    """Ask where optional packages are missing or weights must be made first; judge every install line."""
    draw = case.draw
    write_companions(case.folder)
    missing = draw.sample(_OPTIONAL, 4)
    if draw.random() < 0.5:
        engine = draw.choice(("vllm", "sglang", "trt-llm", "llama.cpp", "exllamav3", "mlx", "lmdeploy"))
        gpu = draw.choice(("l40s", "h100-sxm", "rtx-4090", "mi300x", "m3-ultra"))
        model = draw.choice(("./m", draw.choice(models.all_ids())))
        precision = draw.choice(("fp8", "int4", "int8", "nvfp4", "q4_k_m", "q8_0", "exl3-4.0bpw", "bf16"))
        words = shlex.split(
            f"recommend --fast --model {model} --gpu {gpu} --engine {engine} --rate 1 --top 1 --precision {precision} "
            f"--emit {draw.choice(FORMS)} --emit-dir q"
        )
    else:
        words = shlex.split(
            draw.choice(
                (
                    "sweep study.toml -o out.parquet --workers 1",
                    "sweep study.toml -o out.csv --workers 1 --cluster tcp://127.0.0.1:1",
                    "probe --quick",
                    "probe --first collectives",
                    "catalog prices -o out.parquet",
                    "validate serving cases.csv -o out.parquet",
                    "validate nccl-tests missing.txt",
                    "calibrate missing.json",
                    "simulate serve --model 8b --gpu l40s --rate 1 --requests 20 --records r.parquet",
                    "simulate serve --model 8b --gpu l40s --rate 1 --requests 20 -o out.svg",
                )
            )
        )
        if words[0] == "probe":
            words = ["probe", "--help"]
    hidden = {name: None for name in missing if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        case.ask(words)
    finally:
        for name in hidden:
            del sys.modules[name]
    for name in files_below(case.folder):
        if name.startswith("q/"):
            for word in names_to_install((case.folder / name).read_text(encoding="utf-8")):
                assert is_safe_to_install(word), f"{name}: {word}"


def _file_name(text: str) -> str:
    """Return a text as a name that a file system takes."""
    name = _encodable(text).replace("/", "")[:60].strip(".")
    return name or "x"


def _encodable(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


KINDS: Final[dict[str, Callable[[Case], None]]] = {
    "code": text_becomes_code,
    "path": local_path_is_named,
    "folder": folder_decides,
    "parsing": parsing_is_bounded,
    "failure": program_fails,
    "counts": counts_make_no_sense,
    "leaving": what_leaves,
    "install": unknown_name_is_installed,
}
"""The eight kinds of hostile cases, by name."""
EVERY_PLACE: Final = "place"
"""Kind of the cases that go through every place of every input, one after the other."""
