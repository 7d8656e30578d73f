"""`advisor build`: machines for a budget or a speed, lists judged, and what bad input gets."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.workstation.upgrades import LITTLE_GAIN
from advisor.workstation.valuation import IN_THE_MACHINE

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]
DAY = "--as-of 2026-11-20"
SMALL = "--model 8b --top 2"
"""A question that is answered quickly."""

LIST = """parts = [
  "2 x RTX 5090 $4 000–5 000",
  'Threadripper 7960X ("8-channel", 88 lanes) $1 400',
  "sTR5 WRX90 board $900",
  "128 GB ECC $800",
  "NVMe $500",
  "1600 W PSU $400",
  "case $300",
  "cooling $300",
]
"""


def answer(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command} --json").document()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, so that messages name files without it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def _once() -> dict[str, Any]:
    return {}


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file into which `plan` writes its bill."""
    return tmp_path_factory.mktemp("build") / "bill.csv"


@pytest.fixture
def plan(cli: Cli, bill: Path, _once: dict[str, Any]) -> dict[str, Any]:
    if not _once:
        _once.update(answer(cli, f"build {SMALL} --budget 3000 {DAY} -o {bill}"))
    return _once


def test_machines_are_within_the_budget_and_proven_best(plan: dict[str, Any]) -> None:
    assert plan["kind"] == "build"
    assert plan["optimality_gap"] == 0.0
    assert plan["builds"]
    for build in plan["builds"]:
        assert build["total_usd"] <= 3000
        assert not [c for c in build["checks"] if not c["pass"] and c["severity"] == "hard"]


def test_parts_add_up_to_the_total_to_the_cent(plan: dict[str, Any]) -> None:
    for build in plan["builds"]:
        lines = [round(part["unit_price_usd"] * part["quantity"], 2) for part in build["parts"]]
        assert round(sum(lines), 2) == build["total_usd"]


def test_every_price_has_a_basis_a_day_and_a_source(plan: dict[str, Any]) -> None:
    for build in plan["builds"]:
        for part in build["parts"]:
            assert part["price_basis"] in ("quote", "estimate", "user")
            # A part in the price of a whole machine has no price and no day of its own.
            assert part["unit_price_usd"] == 0 or part["price_observed_on"] <= "2026-11-20"
            assert part["source"]


def test_performance_is_a_range_with_a_basis(plan: dict[str, Any]) -> None:
    for build in plan["builds"]:
        speed = build["performance"]["output_tokens_per_s"]
        assert speed["low"] <= speed["value"] <= speed["high"]
        assert speed["basis"] in ("calibrated", "modelled", "assumed")
        assert build["performance"]["decode_tokens_per_s"]["value"] >= speed["value"]


def test_dollars_per_million_tokens_times_tokens_is_the_bill(plan: dict[str, Any]) -> None:
    for build in plan["builds"]:
        costs = build["economics"]
        run = build["performance"]
        tokens_per_hour = 3600 * (run["output_tokens_per_s"]["value"] + run["input_tokens_per_s"])
        bill = costs["own_usd_per_million_tokens"] * tokens_per_hour / 1e6
        assert bill == pytest.approx(costs["own_usd_per_hour"], abs=0.005)


def test_a_power_limit_saves_more_power_than_speed(cli: Cli) -> None:
    found = answer(cli, f"build --model 8b --top 1 --gpu rtx-4090 --engine vllm --budget 4000 {DAY}")
    build = next(b for b in found["builds"] if b["kind"] == "parts")
    points = build["performance"]["power_points"]
    assert points[0]["power_fraction"] == 1.0
    assert len(points) > 1
    assert [p["output_tokens_per_joule"] for p in points] == sorted(
        p["output_tokens_per_joule"] for p in points
    )
    assert [p["output_tokens_per_s"] for p in points] == sorted(
        (p["output_tokens_per_s"] for p in points), reverse=True
    )


def test_a_target_gives_the_cheapest_that_reaches_it(cli: Cli) -> None:
    found = answer(cli, f"build {SMALL} --target-tokens-per-s 80 {DAY}")
    first = found["builds"][0]
    assert first["performance"]["decode_tokens_per_s"]["value"] >= 80
    new = [build for build in found["builds"] if " used " not in build["name"]]
    assert first["total_usd"] == min(build["total_usd"] for build in new)


def test_a_users_prices_win(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("part,usd,observed_on\nrtx-5090,400,2026-11-19\n", encoding="utf-8")
    found = answer(cli, f"build {SMALL} --budget 3000 --price-file {file} {DAY}")
    gpu = found["builds"][0]["parts"][0]
    assert "5090" in gpu["name"]
    assert (gpu["unit_price_usd"], gpu["price_basis"]) == (400, "user")


def test_error_correction_narrows_the_choice(cli: Cli) -> None:
    found = answer(cli, f"build {SMALL} --ecc --budget 9000 {DAY}")
    first = next(build for build in found["builds"] if build["kind"] == "parts")
    assert next(check for check in first["checks"] if check["rule"] == "ecc")["pass"]


def test_finetuning_plans_for_qlora(cli: Cli) -> None:
    found = answer(cli, f"build --model 8b --workload finetune --top 1 --budget 3000 {DAY}")
    run = found["builds"][0]["performance"]
    assert (run["engine"], run["weight_dtype"], run["ttft_s"]) == ("peft", "nf4", None)
    assert run["qlora_fits"]


HAVE = """RTX 3090
Ryzen 7 5800X
MSI X570 MEG UNIFY
32GB DDR4-3600 (2x16GB)
Corsair RM850x
Fractal Design Meshify 2
1TB NVMe
Noctua NH-D15
"""


def test_a_system_that_trips_the_circuit_is_left_out_and_told(cli: Cli) -> None:
    server = "Used 2U server"
    found = answer(cli, f"build --model 8b --budget 2000 --top 12 {DAY}")
    assert not any(server in build["name"] for build in found["builds"])
    assert any(server in text and "1440 W" in text for text in found["search"]["left_out"])
    found = answer(cli, f"build --model 8b --budget 2000 --top 12 --circuit 230V/16A {DAY}")
    loud = next(build for build in found["builds"] if server in build["name"])
    assert {check["rule"] for check in loud["checks"] if not check["pass"]} == {"noise"}


def test_top_is_the_number_of_machines(cli: Cli, plan: dict[str, Any]) -> None:
    assert len(plan["builds"]) == 2
    assert len(answer(cli, f"build --model 8b --budget 3000 --top 1 {DAY}")["builds"]) == 1


def test_a_small_top_has_the_machine_of_a_large_one_first(cli: Cli) -> None:
    names = [
        answer(cli, f"build --model 70b --budget 9000 --top {n} {DAY}")["builds"][0]["name"] for n in (1, 4)
    ]
    assert names[0] == names[1]


@pytest.mark.usefixtures("here")
def test_parts_that_are_there_cost_nothing_and_an_upgrade_stays_within_its_sum(cli: Cli) -> None:
    Path("have.txt").write_text(HAVE, encoding="utf-8")
    alone = answer(cli, f"build --model 32b --have have.txt --upgrade 400 {DAY} --no-input")
    more = answer(cli, f"build --model 32b --have have.txt --upgrade 1500 {DAY} --no-input")
    for found, most in ((alone, 400), (more, 1500)):
        assert found["inputs"]["have"]
        for build in found["builds"]:
            assert build["total_usd"] <= most
            assert {"you have it"} <= {line["source"] for line in build["parts"]}
    speeds = [
        max(b["performance"]["decode_tokens_per_s"]["value"] for b in found["builds"])
        for found in (alone, more)
    ]
    assert speeds[1] >= speeds[0]
    first = more["builds"][0]["performance"]["decode_tokens_per_s"]["value"]
    assert LITTLE_GAIN * first > speeds[1]  # what the sum buys heads, but for a small gain
    words = cli(f"advisor build --model 32b --have have.txt --upgrade 100 {DAY} --no-input").out
    assert words.startswith("Nothing for $100 makes it a quarter faster. Twice as fast takes $")
    told = cli(f"advisor build --model 32b --upgrade 400 {DAY}")
    assert told.code == 2
    assert "--have" in told.err


def test_wiring_and_reach_are_told(cli: Cli) -> None:
    found = answer(cli, f"build --model 32b --budget 3000 --top 1 {DAY}")["builds"][0]
    cards = sum(line["quantity"] for line in found["parts"] if line["category"] == "gpu")
    assert len(found["wiring"]) == cards
    assert all(card["num_8_pin"] + card["num_16_pin"] >= 1 for card in found["wiring"])
    assert "qwen3-32b" in found["reach"]["on_cards"]
    assert "kimi-k2" in found["reach"]["not_at_all"]


@pytest.mark.usefixtures("plan")
def test_the_bill_is_written_as_a_table(bill: Path) -> None:
    rows = list(csv.DictReader(bill.read_text(encoding="utf-8").splitlines()))
    assert {"gpu", "cpu", "board", "ram", "psu", "case"} <= {row["category"] for row in rows}
    assert all(float(row["usd"]) > 0 or row["source"] == IN_THE_MACHINE for row in rows)


@pytest.mark.usefixtures("here")
def test_the_published_list_is_judged(cli: Cli, golden: Golden) -> None:
    Path("mybuild.toml").write_text(LIST, encoding="utf-8")
    run = cli(f"advisor build check mybuild.toml --model 70b --no-better {DAY}")
    assert run.code == 3
    # What it runs is left out: it moves with every fit of the simulator.
    golden("build-check-published", run.transcript().split("Decoding:")[0])


@pytest.mark.usefixtures("here")
def test_a_list_that_goes_together_ends_well(cli: Cli) -> None:
    Path("mybuild.toml").write_text(
        'parts = ["RTX 4090 founders", "Ryzen 9 9950X", "1200W gold PSU"]', encoding="utf-8"
    )
    found = answer(cli, f"build check mybuild.toml --model 8b --no-better {DAY}")
    assert found["verdict"] == "ok"
    assert next(c for c in found["checks"] if c["rule"] == "complete")["pass"] is False


def test_a_list_is_typed_without_a_file(cli: Cli) -> None:
    parts = '--part "2 x RTX 4090 $1 800" --part "Ryzen 9 9950X" --part "X870E board" --part "1600 W PSU"'
    run = cli(f"advisor build check {parts} --model 8b --no-better --json {DAY}")
    found = json.loads(run.out)
    assert [line["quantity"] for line in found["build"]["parts"]][:1] == [2]
    assert {check["severity"] for check in found["checks"]} == {"hard", "advice"}
    assert run.code == (0 if found["verdict"] == "ok" else 3)


@pytest.mark.parametrize(
    "command",
    [
        "build",
        "build --model 70b --budget 500",
        "build --model 70b --budget -5",
        "build --model 70b --circuit 12V",
        "build --model 70b --circuit 5000V/15A",
        "build --model 70b --room-cooling warm",
        "build --model 70b --gpu rtx-5099",
        "build --model 70b --precision q4",
        "build --model 70b --gpu rtx-5090 --max-gpus 2 --engine vllm --circuit 120V/5A",
        "build --model 70b --price-file missing.csv",
        "build --model bge-m3",
        "build check missing.toml",
        "build check",
        "build check --part $4500",
    ],
)
@pytest.mark.usefixtures("here")
def test_bad_input_is_told(cli: Cli, golden: Golden, command: str) -> None:
    run = cli(f"advisor {command} {DAY}")
    assert run.code in (2, 3)
    assert not run.out
    golden(command.replace("--", "").replace("$", "").replace("/", "-").replace(" ", "-"), run.transcript())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("typo", 'parts = ["2x RTX 509O $4500"]'),
        ("price", 'parts = ["2x RTX 5090 $4,5OO"]'),
        ("negative", '[[part]]\nname = "RTX 5090"\nprice_usd = -4500\n'),
        ("supply", 'parts = ["9000 W PSU"]'),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_bad_list_is_told(cli: Cli, golden: Golden, name: str, text: str) -> None:
    Path("mybuild.toml").write_text(text, encoding="utf-8")
    run = cli(f"advisor build check mybuild.toml {DAY}")
    assert run.code == 2
    assert not run.out
    golden(f"build-check-{name}", run.transcript())


def test_a_speed_that_nothing_reaches_is_told(cli: Cli) -> None:
    run = cli(f"advisor build --model 8b --gpu rtx-5060-ti-16gb --target-tokens-per-s 5000 {DAY}")
    assert run.code == 3
    assert "the fastest cards reach" in run.err


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("typo", "rtx 509O,2500,2026-11-01"),
        ("negative", "rtx-5090,-2500,2026-11-01"),
        ("missing", "rtx-5090,,2026-11-01"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_bad_price_row_is_told(cli: Cli, golden: Golden, name: str, row: str) -> None:
    Path("mine.csv").write_text(f"part,usd,observed_on\n{row}\n", encoding="utf-8")
    run = cli(f"advisor build --model 8b --budget 3000 --price-file mine.csv {DAY}")
    assert run.code == 2
    golden(f"build-price-file-{name}", run.transcript())


def test_parts_are_listed_with_figures_and_prices(cli: Cli, golden: Golden) -> None:
    rows = answer(cli, f"catalog parts {DAY}")["parts"]
    assert len(rows) >= 500
    assert {row["category"] for row in rows} >= {"gpu", "cpu", "board", "ram", "psu", "case", "system"}
    golden("catalog-parts-systems", cli(f"advisor catalog parts --category system {DAY}").transcript())
    assert cli(f"advisor catalog parts --category gpuu {DAY}").code == 2
    assert cli(f"advisor catalog parts --name nothing-of-the-kind {DAY}").code == 3


def test_a_list_pasted_in_place_of_a_file_is_judged_as_the_file(cli: Cli, here: Path) -> None:
    words = "Ryzen 9 7950X, ASUS ProArt X670E, 2x RTX 3090, 64GB DDR5-6000, Corsair RM1000x"
    (here / "mine.txt").write_text(words)
    asked = f"advisor build check {{}} --model 8b --no-better --json {DAY}"
    pasted, listed = (json.loads(cli(asked.format(place)).out) for place in (f"'{words}'", "mine.txt"))
    for document in (pasted, listed):
        document.pop("meta", None)
    assert pasted == listed
    missing = cli(asked.format("nothing.txt"))
    assert missing.code != 0
    assert "no such file" in missing.err


def test_a_list_that_does_not_run_a_model_is_told_what_it_runs(cli: Cli) -> None:
    parts = "RTX 3090, Ryzen 7 7700X, B650 board, 96 GB DDR5-6000"
    told = cli(f"advisor build check '{parts}. Does Qwen3-235B run at q4_k_m?' {DAY}").out
    told = " ".join(told.split())
    assert "What it runs instead: qwen3-235b-a22b in q3_k_m at about" in told
    assert "gpt-oss-120b in mxfp4 at about" in told


def test_a_list_whose_question_names_a_window_or_an_image_model_is_answered_on_it(cli: Cli) -> None:
    parts = "RTX 3090, Ryzen 7 7700X, B650 board, 64 GB DDR5-6000"
    told = cli(f"advisor build check '{parts}. Does llama 8b run with 32K context?' {DAY}").out
    assert "Does a window of 32,768 tokens fit? Yes, at about" in told
    assert "Does it run flux.1-dev?" in cli(f"advisor build check '{parts}, for Flux.1 dev' {DAY}").out


def test_a_model_that_its_cards_do_not_hold_is_said_with_what_does(cli: Cli) -> None:
    parts = "Ryzen 7 5800X3D, B550 Gaming Plus, 4x16GB DDR4-3600, RTX 3080 10GB, Corsair RM750"
    told = cli(f"advisor build check '{parts}. Does Llama 3.3 70B run?' --no-better {DAY}").out
    told = " ".join(told.split())
    assert "not on its cards alone" in told
    assert "The cards' 10 GB hold" in told
    assert "2 x 24 GB of cards hold it (48 GB in all)" in told
    assert "What its cards hold wholly: llama-3.1-8b" in told


def test_a_choice_says_which_machine_does_not_hold_the_model_on_its_cards(cli: Cli) -> None:
    machines = "Mac Studio M4 Max 128GB or a PC with a single RTX 5090 (Ryzen 9 9900X, 64GB DDR5-6000)"
    told = cli(f"advisor build check '{machines}? For llama 3.3 70b q4_k_m.' {DAY}").out
    told = " ".join(told.split())
    assert told.count("GB of weights in") == 1
    assert "The cards' 32 GB hold" in told


@pytest.mark.usefixtures("here")
def test_a_small_case_and_its_supply_are_kept_before_a_machine_that_is_sold_whole(cli: Cli) -> None:
    Path("have.txt").write_text(
        "Cooler Master NR200P\nCorsair SF750 750W 80+ Platinum SFX\n", encoding="utf-8"
    )
    asked = f"build --model 32b --have have.txt --budget 2500 --max-gpus 1 --used --top 2 {DAY} --no-input"
    parts = answer(cli, asked)["builds"][0]["parts"]
    assert {part["category"] for part in parts if part["source"] == "you have it"} == {"case", "psu"}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (
            "I have €2500 and want a quiet PC, what should I buy for Gemma 3 27B?",
            "--budget 2500 --max-noise 40",
        ),
        ("Best PC for Gemma 3 27B under 2500 dollars", "--budget 2500"),
    ],
)
def test_a_question_in_words_is_answered_as_its_options_are(cli: Cli, words: str, options: str) -> None:
    told = answer(cli, f"build '{words}' {DAY} --no-input")
    typed = answer(cli, f"build --model gemma-3-27b {options} {DAY} --no-input")
    assert [one["name"] for one in told["builds"]][:2] == [one["name"] for one in typed["builds"]][:2]
    assert told["inputs"] == typed["inputs"]


@pytest.mark.parametrize("price", ["US $5,299.00 or best offer", "$5,299"])
@pytest.mark.usefixtures("here")
def test_the_price_of_a_whole_machine_on_a_line_of_its_own_is_told(cli: Cli, price: str) -> None:
    Path("lot.txt").write_text(
        "HP Z8 G4 Workstation | 2x Intel Xeon Gold 6154 | 384GB DDR4-2666 ECC (12x32GB) | 2x Quadro RTX 8000 48GB | "
        f"2TB NVMe | 1450W PSU\n{price}\n",
        encoding="utf-8",
    )
    told = " ".join(cli(f"advisor build check lot.txt --model 70b --no-better {DAY}").out.split())
    assert "The list costs $5,299; the catalog has no price for its parts." in told
