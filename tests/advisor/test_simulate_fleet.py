"""`advisor simulate fleet` and `simulate trace`: their answers, and what a mistake in a file gets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.files import check_record, read_toml
from advisor.commands.simulate_fleet.fleet_file import EXAMPLES, FleetFile, example_names

Cli = Callable[[str], Any]

SMALL = """
model = "llama-3.1-8b"
router = "{router}"
interval = "10s"

[[pools]]
name = "base"
gpu = "h100-sxm"
precision = "fp8"
replicas = {replicas}
usd_per_hour = 2.0
{pool}

[[load]]
rate = 20
requests = 600
input_tokens = 300
output_tokens = 60
ttft = "200ms"
{load}
"""


def small(
    tmp_path: Path, *, pool: str = "", load: str = "", router: str = "least_outstanding", replicas: int = 2
) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(SMALL.format(pool=pool, load=load, router=router, replicas=replicas))
    return path


def answer(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor simulate {command} --json").document()


def test_answer_of_a_fleet(cli: Cli, tmp_path: Path) -> None:
    document = answer(cli, f"fleet {small(tmp_path)}")
    metrics = document["metrics"]
    pool = document["pools"][0]
    tenant = document["tenants"][0]
    assert metrics["num_finished"] == document["simulation"]["num_requests"] == 600
    assert metrics["goodput_fraction"] == tenant["goodput_fraction"]
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert list(pool[name]) == ["mean", "p50", "p90", "p95", "p99"]
        assert pool[name]["p99"]["low"] < pool[name]["p99"]["value"] < pool[name]["p99"]["high"]
    hours = document["simulation"]["duration_s"] / 3600
    assert pool["replica_hours"] == pytest.approx(2 * hours)
    assert metrics["usd"] == pytest.approx(4.0 * hours)
    assert metrics["usd_per_hour"] == pytest.approx(4.0)
    cost = metrics["usd_per_million_tokens"]
    assert cost["low"] < cost["value"] < cost["high"]
    assert cost["basis"] == metrics["requests_per_s"]["basis"] == pool["ttft_s"]["p50"]["basis"]
    assert [row["from_s"] for row in document["timeline"]] == [
        10.0 * k for k in range(len(document["timeline"]))
    ]
    assert sum(row["finished_per_s"] for row in document["timeline"][:-1]) * 10 == pytest.approx(600, rel=0.1)


def test_one_pool_equals_simulate_serve(cli: Cli, tmp_path: Path) -> None:
    """The same deployment and load through both commands: the same percentiles, since the same requests are drawn."""
    fleet = answer(cli, f"fleet {small(tmp_path, load='spread = 0.4')} --seed 3")
    serve = answer(
        cli,
        "serve --model llama-3.1-8b --gpu h100-sxm --precision fp8 --replicas 2 --rate 20 --requests 600 "
        "--input-tokens 300 --output-tokens 60 --length-dist lognormal:0.4 --seed 3",
    )
    ours = fleet["pools"][0]["ttft_s"]["p50"]["value"]
    theirs = serve["metrics"]["ttft_s"]["p50"]["value"]
    assert ours == pytest.approx(
        theirs, rel=0.02
    )  # surfaces are built for drawn and for nominal mean lengths
    assert fleet["metrics"]["output_tokens_per_s"]["value"] == pytest.approx(
        serve["metrics"]["output_tokens_per_s"]["value"], rel=0.02
    )


def test_records_are_the_same_on_any_number_of_processes(cli: Cli, tmp_path: Path) -> None:
    path = small(tmp_path, router="round_robin", replicas=3)
    texts = []
    for count in (1, 2):
        out = tmp_path / f"records{count}.csv"
        answer(cli, f"fleet {path} --processes {count} --records {out}")
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert texts[0].count("\n") == 601
    stepped = tmp_path / "stepped.csv"
    answer(cli, f"fleet {path} --step-by-step --records {stepped}")
    assert stepped.read_text() == texts[0]


def test_coupled_fleets_do_not_run_in_parts(cli: Cli, tmp_path: Path) -> None:
    run = cli(f"advisor simulate fleet {small(tmp_path)} --processes 2")
    assert run.code == 2
    assert "depend on each other" in run.err


def test_prices_come_from_the_catalog_as_of_a_day(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    text = SMALL.format(pool="", load="", router="round_robin", replicas=1)
    path.write_text(text.replace("usd_per_hour = 2.0", 'provider = "lambda"'))
    price = answer(cli, f"fleet {path} --as-of 2026-11-20")["pools"][0]["price"]
    assert price["provider"] == "lambda"
    assert price["usd_per_hour"] > 0
    assert price["observed_on"] <= "2026-11-20"


def test_sessions_traces_and_prefixes_from_a_file(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": 100 * k, "input_length": 1024, "output_length": 20, "hash_ids": [0, 1 + k % 2]}
        for k in range(80)
    ]
    trace.write_text("\n".join(map(json.dumps, rows)))
    text = SMALL.format(pool="", load="", router="session_affinity", replicas=2)
    head = text.split("[[load]]")[0]
    path = tmp_path / "fleet.toml"
    path.write_text(
        head
        + """
[[load]]
name = "people"
sessions = { users = 8, turns = 3, think = "1s", system_tokens = 256 }
requests = 30
[[load]]
name = "replayed"
trace = "t.jsonl"
trace_speed = 2
[[load]]
name = "documents"
rate = "120/min"
duration = "20s"
input_tokens = 900
shared_prefix_tokens = 800
"""
    )
    document = answer(cli, f"fleet {path}")
    counts = {tenant["name"]: tenant["num_finished"] for tenant in document["tenants"]}
    assert counts["replayed"] == 80
    assert counts["documents"] == 40
    assert counts["people"] > 30
    assert document["pools"][0]["prefix_hit_fraction"] > 0.4


def test_traffic_like_a_trace(cli: Cli, tmp_path: Path) -> None:
    """What `simulate trace` prints is a load that a fleet file takes; `fitted` draws from the same fit."""
    trace = tmp_path / "trace.jsonl"
    rows = [
        {
            "timestamp": 250 * k,
            "input_length": 1100 + k % 90,
            "output_length": 20 + k % 9,
            "hash_ids": [k % 5, 9, 50 + k],
        }
        for k in range(300)
    ]
    trace.write_text("\n".join(map(json.dumps, rows)))
    printed = cli(f"advisor simulate trace {trace}").out
    head = SMALL.format(pool="", load="", router="round_robin", replicas=1).split("[[load]]")[0]
    path = tmp_path / "fleet.toml"
    found = {}
    for name, load in (
        ("printed", printed[printed.index("[[load]]") :]),
        ("fitted", '[[load]]\ntrace = "trace.jsonl"\nfitted = true\nrequests = 900\n'),
        ("replayed", '[[load]]\ntrace = "trace.jsonl"\n'),
    ):
        path.write_text(head + load)
        document = answer(cli, f"fleet {path}")
        found[name] = document
        assert document["metrics"]["requests_per_s"]["value"] == pytest.approx(4.0, rel=0.1)
    assert found["fitted"]["metrics"]["num_finished"] == 900
    hits = {name: document["pools"][0]["prefix_hit_fraction"] for name, document in found.items()}
    shared = 2 * 512 / (1100 + 89 / 2)  # two blocks of three
    assert hits["replayed"] == pytest.approx(shared, abs=0.3)
    assert hits["fitted"] == pytest.approx(shared, abs=0.05)
    assert hits["printed"] == pytest.approx(shared, abs=0.05)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("replicas = 2", "replicas = 0"), "pools.0.replicas"),
        (("replicas = 2", "replicas = 2\ntpp = 2"), "pools.0.tpp"),
        (("rate = 20", ""), "give one of rate"),
        (("rate = 20", "rate = 20\ntrace = 'x.csv'"), "give one of rate"),
        (("rate = 20", "rate = -1"), "load.0.rate"),
        (('ttft = "200ms"', "ttft = 200"), "load.0.ttft"),
        (('ttft = "200ms"', 'ttft = "soon"'), "load.0.ttft"),
        (("usd_per_hour = 2.0", "provider = 'nobody'"), "nobody"),
        (("usd_per_hour = 2.0", "provider = 'lambda'\nterm = 'spot'"), "no spot price"),
        (('"h100-sxm"', '"h1000"'), "h1000"),
        (('"least_outstanding"', '"random"'), "router"),
        (('"least_outstanding"', '"session_affinity"'), "needs sessions"),
        (("usd_per_hour = 2.0", "tenants = ['x']"), "who send nothing"),
        (("rate = 20", "rate = 20\nshared_prefix_tokens = 300"), "leaves nothing"),
        (("[[load]]", "[load]"), "load"),
        (("model =", "model"), "not valid TOML"),
    ],
)
def test_mistakes_name_file_and_field(cli: Cli, tmp_path: Path, change: tuple[str, str], what: str) -> None:
    path = small(tmp_path)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    run = cli(f"advisor simulate fleet {path}")
    assert run.code == 2, run.out
    assert what in run.err
    assert "Traceback" not in run.err


def test_an_unknown_example_is_told_the_known_ones(cli: Cli) -> None:
    run = cli("advisor simulate fleet autoscalling")
    assert run.code == 2
    assert "autoscaling" in run.err
    assert cli("advisor simulate fleet nothere.toml").code == 2


@pytest.mark.parametrize("name", example_names())
def test_examples_are_valid_and_printed(cli: Cli, name: str) -> None:
    path = EXAMPLES / f"{name}.toml"
    check_record(FleetFile, read_toml(path), str(path))
    run = cli(f"advisor simulate fleet {name} --show")
    assert run.code == 0
    assert 'model = "llama-3.1-8b"' in run.out


def test_a_trace_is_described(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    lines = [f"{0.5 * k},{100 + k % 7},{10 + k % 3}" for k in range(200)]
    path.write_text("\n".join(["arrived_at_s,input_tokens,output_tokens", *lines]))
    fit = answer(cli, f"trace {path} --speed 2")["fit"]
    assert fit["num_requests"] == 200
    assert fit["rate_per_s"] == pytest.approx(4.0, rel=0.01)
    assert fit["burstiness_cv"] == pytest.approx(0.0, abs=1e-9)
    assert fit["prefix_hit_fraction"] is None
    assert cli(f"advisor simulate trace {path} --speed 0").code == 2


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("0,100,5\n4000,100,5\n", "row 3: field arrived_at_s: a gap of 4000 s"),
        ("5,100,5\n4,100,5\n", "row 3: field arrived_at_s: earlier"),
        ("0,0,5\n", "row 2: field input_tokens"),
        ("0,20000000,5\n", "row 2: field input_tokens: 20000000 tokens"),
    ],
)
def test_a_bad_trace_is_told_with_file_and_row(cli: Cli, tmp_path: Path, rows: str, what: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n" + rows)
    for command in (
        f"simulate trace {path}",
        f"simulate serve --model llama-3.1-8b --gpu h100-sxm --trace {path}",
    ):
        run = cli(f"advisor {command}")
        assert run.code == 2
        assert what in run.err
        assert str(path) in run.err


def test_serve_replays_faster_and_shares_prefixes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 500 * k, "input_length": 1500, "output_length": 30, "hash_ids": [0, 1, 100 + k]}
        for k in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    base = f"serve --model llama-3.1-8b --gpu h100-sxm --precision fp8 --trace {path}"
    plain, fast, off = (
        answer(cli, f"{base} {more}") for more in ("", "--trace-speed 4", "--no-prefix-caching")
    )
    assert plain["simulation"]["duration_s"] > 3.5 * fast["simulation"]["duration_s"]
    assert fast["inputs"]["traffic"]["rate_per_s"] == pytest.approx(
        4 * plain["inputs"]["traffic"]["rate_per_s"]
    )
    assert plain["metrics"]["prefix_hit_fraction"] == pytest.approx(1024 / 1500 * 59 / 60, rel=1e-3)
    assert off["metrics"]["prefix_hit_fraction"] is None
    assert plain["metrics"]["ttft_s"]["p50"]["value"] < off["metrics"]["ttft_s"]["p50"]["value"]
    shared = answer(
        cli,
        "serve --model llama-3.1-8b --gpu h100-sxm --rate 5 --requests 200 --input-tokens 1000 "
        "--shared-prefix-tokens 800 --replicas 2 --router prefix_affinity",
    )
    assert shared["metrics"]["prefix_hit_fraction"] == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("--rate 5 --trace-speed 2", "--trace-speed belongs to --trace"),
        ("--rate 5 --shared-prefixes 3", "needs their length"),
        ("--rate 5 --input-tokens 100 --shared-prefix-tokens 100", "leaves nothing"),
        ("--rate 5 --replicas 2 --router prefix_affinity", "begin alike"),
    ],
)
def test_options_that_do_not_go_together(cli: Cli, options: str, what: str) -> None:
    run = cli(f"advisor simulate serve --model llama-3.1-8b --gpu h100-sxm {options}")
    assert run.code == 2
    assert what in run.err


def test_a_prompt_beyond_the_context_of_the_model_is_told_with_its_row(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,5\n1,9000,5\n")
    run = cli(f"advisor simulate serve --model llama-2-7b --gpu h100-sxm --trace {path}")
    assert run.code == 2
    assert f"{path}: row 3: 9000 tokens in" in run.err


def test_recommend_takes_the_speed_of_a_trace(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = "".join(f"{0.5 * k},{900 + k % 200},100\n" for k in range(400))
    path.write_text("arrived_at_s,input_tokens,output_tokens\n" + rows)
    command = f"advisor recommend --model 8b --gpu l40s --provider runpod --trace {path} --json"
    found = {}
    for speed in ("", " --trace-speed 10"):
        document = cli(command + speed).document()
        found[speed] = (
            document["inputs"]["traffic"]["rate_per_s"],
            document["options"][0]["machine"]["num_accelerators"],
        )
    (slow, few), (fast, many) = found.values()
    assert fast == pytest.approx(10 * slow)
    assert many > few


def test_a_duration_of_too_many_requests_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    path = small(tmp_path)
    path.write_text(path.read_text().replace("requests = 600", 'duration = "10d"'))
    run = cli(f"advisor simulate fleet {path}")
    assert run.code == 2
    assert "17,280,000 requests" in run.err
    assert "duration = 50000" in run.err


def test_a_fleet_beyond_capacity_is_said(cli: Cli, tmp_path: Path) -> None:
    path = small(tmp_path, replicas=1)
    assert answer(cli, f"fleet {path}")["overload"] is None
    text = path.read_text().replace("rate = 20", "rate = 400").replace("requests = 600", "requests = 4000")
    path.write_text(text.replace('interval = "10s"', 'interval = "1s"'))
    assert answer(cli, f"fleet {path}")["overload"]
