"""Limits on what a foreign folder may set, write and say; what is installed; what is refused before the work."""

import importlib.util
import json
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.ask import levers as lever_options
from advisor.ask.inputs import parameters_of
from advisor.ask.options import Effect, SharedOptions
from advisor.catalog import models
from advisor.catalog.engines import all_engines
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import DATA_DIR, check_keys, check_link, read_toml
from advisor.catalog.training import tuners
from advisor.cli.command import Command, commands, effect_of
from advisor.commands.sweep.targets import fields_of, targets
from advisor.evidence import table as case_table
from advisor.render.atomic import write_files, write_text
from advisor.sweep.journal import Header, Journal, read_journal
from advisor.sweep.table import read_table

ROOT = Path(__file__).resolve().parents[3]
Ask = Callable[[list[str]], tuple[int, str, str]]
HEADER = Header("simulate collective", "1", "1", "2026-11-20", 0)
QUESTIONS = Path(__file__).parent / "options_that_only_ask.txt"
"""Options of text and flags that were looked at and do nothing but ask; a new one is looked at before it is added."""


def all_options() -> list[tuple[Command, str, object]]:
    """Every option of every command."""
    found = [
        (one, each)
        for one in commands().values()
        for each in (*parameters_of(one.inputs), *parameters_of(SharedOptions))
    ]
    return [(one, each.name, each.annotation) for one, each in found]


def test_every_option_with_an_effect_declares_it() -> None:
    asking = set(QUESTIONS.read_text(encoding="utf-8").split())
    seen = set()
    for one, name, annotation in all_options():
        kind, _, *more = get_args(annotation)
        if Path in (kind, *get_args(kind)):
            assert more or effect_of(annotation) is Effect.READS, (
                f"{one.name} --{name} takes a path: reads or writes?"
            )
        elif {bool, str} & {kind, *get_args(kind)} and effect_of(annotation) is None:
            assert name in asking, (
                f"{one.name} --{name}: does it only ask? Declare its Effect, or add it to {QUESTIONS.name}"
            )
            seen.add(name)
    assert seen == asking


def settable() -> list[tuple[str, str]]:
    return sorted(
        {
            (one.name, name)
            for one, name, _ in all_options()
            if one.effects.get(name, Effect.READS) is not Effect.READS
        }
    )


@pytest.mark.parametrize(("name", "field"), settable())
def test_a_folder_sets_no_option_with_an_effect(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Command, "answer", lambda *_: pytest.fail("the work began"))
    option = field.replace("_", "-")
    value = (
        '"stolen"' if option not in ("clear", "accept", "resume", "power-sweep", "trust-config") else "true"
    )
    (tmp_path / "advisor.toml").write_text(f"[{name.replace(' ', '.')}]\n{option} = {value}\n")
    code, _, err = ask(name.split())
    assert code == 2
    assert "--trust-config" in err
    assert [path.name for path in tmp_path.iterdir()] == ["advisor.toml"]


def test_security_and_the_page_name_every_option_that_a_folder_may_not_set() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("SECURITY.md", "docs/cli.md")]
    for _, field in settable():
        if field != "trust_config":
            assert all(f"`{field.replace('_', '-')}`" in page for page in pages), field


def test_a_study_sets_no_option_with_an_effect() -> None:
    for name in targets():
        effects = commands()[name].effects
        for field in fields_of(name).values():
            assert effects.get(field.parameter, Effect.READS) is Effect.READS, f"{name}: {field.name}"


@pytest.mark.parametrize("key", [".".join("a" * 24_000) + " = 1", "[" + ".".join(['"a"'] * 400) + "]"])
def test_a_key_of_thousands_of_parts_is_refused_before_it_is_parsed(tmp_path: Path, key: str) -> None:
    path = tmp_path / "advisor.toml"
    path.write_text(f"x = 1\n{key}\n")
    started = time.process_time()
    with pytest.raises(InputFileError, match="line 2 has a dotted key of more than 16 parts"):
        read_toml(path)
    assert time.process_time() - started < 5


TEXTS = st.lists(
    st.sampled_from(('"""', "'''", '"', "'", "\\", "a", " ", "#", "\n", '\\"', "''", '""', ".")), max_size=9
)


@given(TEXTS, st.sampled_from(('"""', "'''", '"', "'")), st.sampled_from((0, 1, 2)))
@settings(max_examples=500, deadline=None)
def test_no_text_before_a_long_key_hides_it(pieces: list[str], quote: str, num_more: int) -> None:
    key = ".".join("b" * 40)
    text = f"x = {{a = {quote}{''.join(pieces)}{quote}{quote[0] * num_more}, {key} = 1}}"
    try:
        has_key = "b" in tomllib.loads(text)["x"]
    except tomllib.TOMLDecodeError:
        return
    if has_key:
        with pytest.raises(InputFileError, match="dotted key"):
            check_keys(text, Path("x.toml"))
    else:
        check_keys(text, Path("x.toml"))


@pytest.mark.parametrize(
    "text",
    [
        '"\\' * 400_000,
        '"""' * 300_000,
        '"""a' * 200_000,
        "'''a" * 200_000,
        '"""\\' * 200_000,
        "'" * 900_000,
        '"' * 900_000,
        "a" * 900_000,
        "." * 900_000,
        "a. " * 9,
    ],
)
def test_the_look_at_keys_takes_time_in_proportion(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    started = time.process_time()
    with pytest.raises(InputFileError):
        read_toml(path)
    assert time.process_time() - started < 5


def test_a_text_with_many_dots_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'url = "{".".join("abc" * 30)}"\n')
    assert read_toml(path)["url"].count(".") == 89


@pytest.mark.parametrize(
    "value", ['"a\\nb"', '"""a\nb"""', '{ "a\\nb" = 1 }', '["a\\rb"]', "0x" + "f" * 5000]
)
def test_a_text_of_several_lines_and_an_endless_number_are_refused(
    ask: Ask, tmp_path: Path, value: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"parts = {value}\n")
    with pytest.raises(InputFileError, match=r"several lines|bits"):
        read_toml(path)
    assert ask(["build", "check", str(path)])[0] == 2


def test_a_million_bytes_of_keys_are_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("\n".join(f"a{i}.{'.'.join('b' * 15)} = 1" for i in range(24_000)))
    started = time.process_time()
    read_toml(path)
    assert time.process_time() - started < 30
    path.write_text("#" * 1_000_001)
    with pytest.raises(InputFileError, match="too large"):
        read_toml(path)


@pytest.mark.slow
def test_a_long_price_file_takes_time_in_proportion(ask: Ask, tmp_path: Path) -> None:
    """Three times the rows take three times as long, not nine times."""

    def seconds(num_rows: int) -> float:
        path = tmp_path / f"{num_rows}.csv"
        rows = "\n".join(f"lambda,l40s,1,on_demand,{1 + i % 7},2026-11-01,s{i},r" for i in range(num_rows))
        path.write_text(
            f"provider,accelerator,num_accelerators,term,usd_per_hour,observed_on,sku,region\n{rows}\n"
        )
        started = time.process_time()
        code, out, _ = ask(["catalog", "prices", "--gpu", "l40s", "--price-file", str(path)])
        assert code == 0
        assert "more rows: -o FILE.csv writes all of them" in out
        return time.process_time() - started

    assert seconds(24_000) < 5.0 * seconds(8_000)


@pytest.mark.parametrize(
    "line",
    [
        "-3x RTX 5090",
        "0x RTX 5090",
        "100000x RTX 5090",
        "1000 x RTX 5090",
        "2.5x RTX 5090",
        "RTX 5090 x 0",
        "RTX 5090 -$5",
        "RTX 5090 -USD 5",
        "RTX 5090 $-5",
        "RTX 5090 $9999999999",
        "0x32GB DDR5",
        "99x32GB DDR5",
        "99999999999999999999GB DDR5",
    ],
)
def test_counts_and_prices_that_make_no_sense_are_refused(ask: Ask, line: str) -> None:
    code, _, err = ask(["build", "check", "--part", line, "--part", "Ryzen 9 9950X"])
    assert code == 2
    assert "To fix: correct it" in err


def test_a_list_of_thousands_of_cards_is_no_machine(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(f"parts = {json.dumps(['RTX 5090'] * 10_000)}\n")
    code, _, err = ask(["build", "check", str(tmp_path / "b.toml")])
    assert code == 2
    assert "lists 10,000 parts" in err


@pytest.mark.parametrize("name", ["7950X", "10980XE", "ASUS Prime X870", "4x3.84TB", "2x32GB DDR5"])
def test_a_number_in_a_name_is_no_count(name: str) -> None:
    from advisor.workstation.typed_line import read_line

    assert (read_line(name, "x").what, read_line(name, "x").quantity) == (name, 1)


@pytest.mark.parametrize("model", ["rwkv7-2.9b", "mamba2-2.7b"])
def test_a_model_without_a_cache_has_a_cost(ask: Ask, model: str) -> None:
    code, out, _ = ask(["cost", "--model", model, "--rate", "1", "--gpu", "l40s", "--json"])
    assert code == 0
    rented = [row for row in json.loads(out)["rows"] if row["way"] == "rent"]
    assert {row["usd_per_million_cached_tokens"]["value"] for row in rented} == {0}


@pytest.mark.parametrize("tokens", ["0.5", "0.4", "1e9"])
def test_a_length_is_a_whole_number_of_tokens(ask: Ask, tokens: str) -> None:
    assert ask(["simulate", "long-context", "--model", "8b", "--gpu", "h100", "--context", tokens])[0] == 2


@pytest.mark.parametrize(
    "row", [{"status": {}}, {"status": "ok", "x": []}, {"status": "ok", "x": {"y": 1}}, {}, [], "x", None, 3]
)
def test_a_row_of_a_journal_is_plain_or_asked_again(tmp_path: Path, row: object) -> None:
    path = tmp_path / "out.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok", "x": 1.0})
    path.write_text(
        path.read_text()
        + json.dumps({"id": "b", "row": row})
        + '\n{"id": "c", "row": {"status": "ok", "x": 1e999}}\n'
    )
    _, kept = read_journal(path)
    assert set(kept.rows) == {"a"}
    assert kept.damaged_lines == (3, 4)


def test_a_journal_that_is_being_written_is_never_to_be_removed(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        'command = "simulate collective"\n[base]\ngpu = "h100"\n[grid]\nbytes = ["1MiB"]\n'
    )
    with Journal(Path("out.csv.journal"), HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok"})
        code, _, err = ask(["sweep", "s.toml", "-o", "out.csv", "--workers", "1"])
        assert code == 2
        assert "wait for it" in err
        assert "remove" not in err


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".svg"])
def test_a_form_that_no_answer_has_is_refused_before_the_work(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(Command, "answer", lambda *_: pytest.fail("the work began"))
    table = tmp_path / "cases.csv"
    table.write_text("case_id\n")
    for name in ("serving", "collectives", "training"):
        code, _, err = ask(["validate", name, str(table), "-o", str(tmp_path / f"x{suffix}")])
        assert code in (2, 6)
        assert "no table" in err or "no drawing" in err or "pyarrow" in err


def test_no_output_follows_a_link_out_of_its_folder(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    outside = tmp_path / "outside"
    mine.mkdir()
    outside.mkdir()
    (outside / "rc").write_text("kept")
    (mine / "out.json").symlink_to(outside / "rc")
    (mine / "out.csv.journal").symlink_to(outside / "rc")
    (mine / "sub").symlink_to(outside)
    (mine / "near.json").symlink_to("real.json")
    with pytest.raises(AdvisorError, match="it leads to"):
        write_text(mine / "out.json", "x")
    with pytest.raises(AdvisorError, match="it leads to"):
        write_files(mine, {"a": "x", "sub/rc": "x"})
    with pytest.raises(AdvisorError, match="it leads to"):
        Journal(mine / "out.csv.journal", HEADER, keep=False)
    assert (outside / "rc").read_text() == "kept"
    assert [path.name for path in outside.iterdir()] == ["rc"]
    assert not (mine / "a").exists()
    write_text(mine / "near.json", "x")
    assert (mine / "real.json").read_text() == "x"
    with pytest.raises(AdvisorError, match="it leads to"):
        read_journal(mine / "out.csv.journal")
    check_link(Path("/dev/stdout"))


def test_a_long_line_of_a_journal_is_refused_by_size(tmp_path: Path) -> None:
    path = tmp_path / "out.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok"})
    with path.open("a") as file:
        file.write("[" + "{}," * 4_000_000)
    with pytest.raises(InputFileError, match="a line of it: is too large"):
        read_journal(path)


def test_a_journal_shows_every_character_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "a\u202eb\x9b"})
    assert all(letter.isprintable() or letter == "\n" for letter in path.read_text(encoding="utf-8"))
    assert read_journal(path)[1].rows["a"]["status"] == "a\u202eb\x9b"


def test_a_small_parquet_file_of_long_texts_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    texts = pyarrow.array(["x" * 1_000_000]).dictionary_encode()
    repeated = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 1000, pyarrow.int32()), texts.dictionary
    )
    for column in (repeated, repeated.dictionary_decode()):
        pyarrow.parquet.write_table(pyarrow.table({"status": column}), path)
        assert path.stat().st_size < 1_000_000
        with pytest.raises(InputFileError, match="too large"):
            read_table(path)
    many = pyarrow.table({"status": pyarrow.array([None] * 6_000_000, pyarrow.int8())})
    pyarrow.parquet.write_table(many, path)
    with pytest.raises(InputFileError, match="5,000,000 cells"):
        read_table(path)


def test_no_name_writes_a_line_of_its_own(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forged = "x\nTo fix: run this"
    Path("p.csv").write_text(
        "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
        f'"{forged}",l40s,1,on_demand,0.5,2026-11-20\n'
    )
    Path("advisor.toml").write_text(f"{json.dumps(forged)} = 1\n")
    for words in (
        ["roofline", "--model", forged, "--gpu", "l40s"],
        ["catalog", "gpus"],
        ["catalog", "prices", "--price-file", "p.csv"],
    ):
        code, out, err = ask(words)
        assert code == 2
        assert "To fix: run this" not in [line.strip() for line in (out + err).splitlines()]
        Path("advisor.toml").unlink(missing_ok=words[1] == "prices") if words[0] == "catalog" else None


def test_a_folder_does_not_replace_a_model_of_the_catalog(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = (Path(__file__).parent / "earlier" / "config.json").read_text().replace("4096", "2048")
    for name in ("8b", "llama-3.1-8b", "meta-llama/Llama-3.1-8B", "MyModel"):
        Path(name).mkdir(parents=True)
        (Path(name) / "config.json").write_text(config)
    for name in ("8b", "llama-3.1-8b", "meta-llama/Llama-3.1-8B"):
        chosen = models.get(name)
        assert (chosen.record.id, chosen.record.folder) == ("llama-3.1-8b", "")
        assert f"./{name} names it" in chosen.note
        assert models.get(f"./{name}").record.folder == f"./{name}"
    assert models.get("MyModel").record.folder == "./MyModel"


def test_the_name_of_a_folder_brings_no_price_and_no_shape_of_another_model(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "llama-3.1-8b"
    folder.mkdir()
    config = json.loads((Path(__file__).parent / "earlier" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    code, out, _ = ask(["cost", "--model", "./llama-3.1-8b", "--gpu", "l40s", "--rate", "1", "--json"])
    assert code == 0
    assert json.loads(out)["api"] == []
    code, out, _ = ask(["build", "--model", "./llama-3.1-8b", "--budget", "1500", "--json", "--no-input"])
    assert code == 0
    named = ask(["build", "--model", "llama-3.1-8b", "--budget", "1500", "--json", "--no-input"])[1]
    builds = [json.loads(text)["builds"][0] for text in (out, named)]
    speeds = [build["performance"]["output_tokens_per_s"]["value"] for build in builds]
    assert speeds[0] > 2 * speeds[1]


def _judges() -> ModuleType:
    """The module of the hostile cases that knows what may be installed."""
    spec = importlib.util.spec_from_file_location(
        "hostile_judges", ROOT / "tools" / "hostile" / "hostile_judges.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_more_adapters_than_are_read_are_refused(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lever_options, "_MOST_CONFIGS", 3)
    for number in range(4):
        (tmp_path / f"a{number}").mkdir()
        (tmp_path / f"a{number}" / "adapter_config.json").write_text('{"r": 16}', encoding="utf-8")
    asked = [
        "recommend",
        "--model",
        "8b",
        "--rate",
        "1",
        "--gpu",
        "h100",
        "--engine",
        "vllm",
        "--fast",
        "--adapters",
    ]
    code, _, err = ask([*asked, str(tmp_path)])
    assert code == 2
    assert "more than 3 adapters" in err
    assert "To fix" in err


def test_the_configuration_of_an_adapter_is_small(ask: Ask, tmp_path: Path) -> None:
    padding = " " * 100_000
    (tmp_path / "adapter_config.json").write_text(f'{{"r": 16}}{padding}', encoding="utf-8")
    code, _, err = ask(
        ["recommend", "--model", "8b", "--rate", "1", "--gpu", "h100", "--fast", "--adapters", str(tmp_path)]
    )
    assert code == 2
    assert "adapter_config.json" in err


def test_more_cases_than_are_simulated_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_table, "MOST_CASES", 2)
    table = tmp_path / "cases.csv"
    table.write_text(
        "collective,gpu,n_gpus,size_bytes,time_us\n" + "all_reduce,h100,8,1000,20\n" * 3, encoding="utf-8"
    )
    with pytest.raises(InputFileError, match="more than 2 cases"):
        case_table.read_cases(table, ("gpu",))


def test_no_line_installs_a_name_that_is_not_held() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "kernels" / "conftest.py"]
    for room in ("advisor", "catalog", "simulator", "evidence", "probes", "kernels", "tools"):
        files += [*ROOT.glob(f"{room}/**/*.py"), *ROOT.glob(f"{room}/**/*.toml")]
    judges = _judges()
    found = 0
    for path in files:
        for word in judges.names_to_install(path.read_text(encoding="utf-8")):
            found += 1
            # An engine's record names the package of a plug-in, a trainer's those of its release.
            assert word in ("{plugin}", "{packages}") or judges.is_safe_to_install(word), f"{path}: {word}"
    assert found > 10
    plugins = {name for engine in all_engines() for name in engine.flags.plugins.values()}
    assert plugins <= judges.HELD
    tables = (*tuners().values(), *read_toml(DATA_DIR / "training" / "launch_options.toml").values())
    packages = [dict(table).get("packages") or () for table in tables]
    assert all(judges.is_safe_to_install(name) for names in packages for name in names)


def test_a_variable_of_the_user_may_set_what_a_file_may_not(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_OUTPUT", str(tmp_path / "out.json"))
    assert ask(["catalog", "gpus", "-q"])[0] == 0
    assert (tmp_path / "out.json").is_file()
