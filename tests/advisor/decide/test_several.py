"""Several models on one fleet: packed on the fewest machines, bought for least, told and started model by model."""

import datetime
import itertools
import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Price
from advisor.commands.recommend.models_answer import _how_sure
from advisor.decide.decision import Decision
from advisor.decide.option import Option
from advisor.decide.scenario import Constraints, Scenario, Traffic
from advisor.decide.several import result as several_result
from advisor.decide.several import sizing as several
from advisor.decide.several.blocks import cheapest_fleets, compared_rows, usd_per_hour
from advisor.decide.several.packing import Machines, Need, order_units, pack
from advisor.decide.several.result import recommend_several, saving
from advisor.decide.several.sizing import Sized, slice_offers
from advisor.emit.formats import Format
from advisor.emit.several import emitted_models

Cli = Callable[[str], Any]
DAY = datetime.date(2026, 11, 20)
RATES = {"llama-3.1-8b": 300.0, "llama-3.1-70b": 2.0, "qwen3-4b": 30.0}
FORMS: tuple[Format, ...] = ("command", "docker", "compose", "k8s", "slurm")
SCHEMAS = json.loads((Path(__file__).parents[1] / "emitted_schemas.json").read_text())


def scenario(model: str, **limits: Any) -> Scenario:
    dtype = "bf16" if model == "llama-3.1-70b" else "fp8"  # which then takes four of them
    known = {
        "accelerators": ("h100-sxm",),
        "providers": ("aws",),
        "engines": ("vllm",),
        "precisions": (dtype,),
    }
    traffic = Traffic(mean_input_tokens=500, mean_output_tokens=100, rate_per_s=RATES[model])
    return Scenario(
        model=model, traffic=traffic, constraints=Constraints(**known | limits), as_of=DAY, screened_only=True
    )


@pytest.fixture(scope="module")
def sized() -> list[Sized]:
    return several.size_models([scenario(model) for model in RATES], lambda message: None)


@pytest.fixture(scope="module")
def found(sized: list[Sized]) -> Decision:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(several_result, "size_models", lambda scenarios, progress: sized)
        return recommend_several([one.scenario for one in sized], lambda message: None)


def fewest(sizes: Sequence[int], capacity: int) -> int:
    """Machines that replicas need at least, by trying everything."""
    best = len(sizes)

    def place(rest: Sequence[int], used: list[int]) -> None:
        nonlocal best
        if len(used) >= best:
            return
        if not rest:
            best = len(used)
            return
        for number, held in enumerate(used):
            if held + rest[0] <= capacity and held not in used[:number]:
                place(rest[1:], [*used[:number], held + rest[0], *used[number + 1 :]])
        place(rest[1:], [*used, rest[0]])

    place(sorted(sizes, reverse=True), [])
    return best


def test_several_sellers_and_old_prices_are_told(found: Decision) -> None:
    first = replace(found.options[0], role="other", purchases=found.options[0].purchases[:1])
    mixed = next(option for option in found.options if len(option.purchases) == 2)
    theirs, others = (
        replace(bought, offer=replace(bought.offer, provider=name, age_days=200))
        for bought, name in zip(mixed.purchases, ("aws", "gcp"), strict=True)
    )
    likely = replace(mixed.shared, holds="likely")
    bold = replace(mixed, rank=2, role="cheapest_if_it_holds", performance=likely, purchases=(theirs, others))
    words = _how_sure(replace(found, options=(first, bold), comparisons=()))
    assert "renting from several providers (2) is more work, which is not priced" in words
    assert "if prices of up to 200 days ago still stand: ask about them first" in words
    alone = replace(bold, purchases=(theirs, replace(theirs, num_idle=0)))
    assert "several providers" not in _how_sure(replace(found, options=(first, alone), comparisons=()))


@pytest.mark.parametrize("seed", range(60))
def test_replicas_are_packed_on_the_fewest_machines(seed: int) -> None:
    draw = random.Random(seed)
    needs = [Need(draw.randint(0, 4), draw.choice([1, 2, 4, 8])) for _ in range(draw.randint(1, 3))]
    capacity = draw.choice([8, 10, 12, 16])
    machines = pack(needs, capacity)
    sizes = [need.size for need in needs for _ in range(need.num_replicas)]
    assert sum(each.count for each in machines) == fewest(sizes, capacity)
    for place, need in enumerate(needs):
        assert sum(each.count * each.num_replicas[place] for each in machines) == need.num_replicas
    for each in machines:
        held = zip(each.num_replicas, needs, strict=True)
        assert each.num_used == sum(count * need.size for count, need in held) <= each.num_accelerators


def offer(**changes: Any) -> Price:
    usual = {
        "provider": "aws",
        "sku": "node",
        "region": "us",
        "accelerator": "h100-sxm",
        "num_accelerators": 8,
        "term": "on_demand",
        "usd_per_hour": 80.0,
        "observed_on": DAY,
        "valid_from": DAY,
    }
    return Price(**usual | changes)


def test_whole_nodes_are_bought_within_what_the_seller_has() -> None:
    chip = accelerators.by_id("h100-sxm")
    needs = [Need(3, 2), Need(5, 1)]
    order = order_units(needs, offer(), chip)
    assert order is not None
    assert (order.num_units, order.usd_per_hour, order.num_accelerators) == (2, 160.0, 16)
    assert order.machines == (Machines(1, 8, (3, 2), 8), Machines(1, 8, (0, 3), 3))
    assert order_units(needs, offer(max_quantity=8), chip) is None
    least = order_units(needs, offer(min_quantity=32), chip)
    assert least is not None
    assert least.num_units == 4
    assert order_units(needs, offer(provider="own"), chip) is None  # two machines are not there
    owned = order_units([Need(2, 2), Need(3, 1)], offer(provider="own"), chip)
    assert owned is not None
    assert (owned.num_units, owned.machines) == (7, (Machines(1, 8, (2, 3), 7),))
    four = order_units([Need(1, 1), Need(1, 1)], offer(provider="own", num_accelerators=4), chip)
    assert four is not None
    assert (four.num_units, four.machines) == (2, (Machines(1, 4, (1, 1), 2),))
    twelve = offer(provider="own", num_accelerators=12)
    for needs, fits in (
        ([Need(3, 4)], True),
        ([Need(1, 8), Need(4, 1)], True),
        ([Need(2, 5)], False),
        ([Need(1, 8), Need(1, 4), Need(1, 1)], False),
    ):
        assert (order_units(needs, twelve, chip) is not None) == fits
    assert order_units([Need(1, 8)], offer(num_accelerators=2, usd_per_hour=20.0), chip) is None
    single = order_units(
        [Need(2, 4), Need(3, 1)], offer(provider="runpod", num_accelerators=1, usd_per_hour=3.0), chip
    )
    assert single is not None
    assert single.usd_per_hour == 33.0
    assert Counter({each.num_accelerators: each.count for each in single.machines}) == {1: 3, 4: 2}
    joined = order_units([Need(1, 16), Need(2, 4)], offer(), chip)
    assert joined is not None
    assert joined.num_units == 3


def test_parts_of_machines_cost_their_part_of_the_price() -> None:
    chips = {"h100-sxm": accelerators.by_id("h100-sxm")}
    rows = slice_offers(
        {"h100-sxm": (offer(min_quantity=16, max_quantity=64), offer(usd_per_hour=160.0))}, chips
    )
    assert [row.num_accelerators for row in rows["h100-sxm"]] == [1, 2, 4, 8, 16, 32, 64]
    assert {row.usd_per_accelerator_hour for row in rows["h100-sxm"]} == {10.0}
    assert {row.min_quantity for row in rows["h100-sxm"]} == {None}


def test_no_other_fleet_costs_less(sized: list[Sized]) -> None:
    done = sized[0].done
    scenarios = [one.scenario for one in sized]
    rows = list(compared_rows(scenarios[0], done.offers, done.accelerators, (1, 2, 4, 8)))
    plans = [one.plans for one in sized]
    assert len(rows) > 1
    best = min(map(usd_per_hour, cheapest_fleets(scenarios, plans, rows)))
    least = float("inf")
    for chosen in itertools.product(*(one.plans["h100-sxm"] for one in sized)):
        for where in itertools.product(range(len(rows)), repeat=len(sized)):
            total = 0.0
            for row, (chip, price) in enumerate(rows):
                held = [plan for plan, place in zip(chosen, where, strict=True) if place == row]
                sizes = [plan.found.candidate.deployment.accelerators_per_replica for plan in held]
                counts = [plan.found.purchase.num_replicas for plan in held]
                needs = [Need(count, size) for count, size in zip(counts, sizes, strict=True)]
                order = order_units(needs, price, chip) if needs else None
                total += order.usd_per_hour if order else 0.0 if not needs else float("inf")
            least = min(least, total)
    assert best == pytest.approx(least)


def test_a_budget_leaves_only_what_it_buys(sized: list[Sized]) -> None:
    done = sized[0].done
    scenarios = [one.scenario for one in sized]
    rows = list(compared_rows(scenarios[0], done.offers, done.accelerators, (1, 2, 4, 8)))
    plans = [one.plans for one in sized]
    costs = sorted(map(usd_per_hour, cheapest_fleets(scenarios, plans, rows)))
    assert [usd_per_hour(each) for each in cheapest_fleets(scenarios, plans, rows, costs[0])] == costs[:1]
    assert cheapest_fleets(scenarios, plans, rows, 0.99 * costs[0]) == []


def test_a_fleet_adds_up(found: Decision, sized: list[Sized]) -> None:
    assert found.model == "+".join(RATES)
    assert [option.rank for option in found.options] == list(range(1, len(found.options) + 1))
    assert sum(option.role == "safe_pick" for option in found.options) <= 1
    for fleet in found.options:
        usd_per_hour = fleet.shared.usd_per_hour.value
        assert [part.model for part in fleet.parts] == list(RATES)
        assert usd_per_hour == pytest.approx(sum(part.bill.usd_per_hour for part in fleet.parts))
        assert usd_per_hour == pytest.approx(sum(each.usd_per_hour for each in fleet.purchases))
        assert usd_per_hour == pytest.approx(fleet.bill.usd_per_hour)
        assert fleet.shared.chance <= min(part.served.chance for part in fleet.parts)
        machines = [each for bought in fleet.purchases for each in bought.machines]
        for option in fleet.parts:
            assert option.served.requests_per_s.value == RATES[option.model]
            assert (
                sum(each.count * each.num_replicas.get(option.model, 0) for each in machines)
                == option.layout.num_replicas
            )
            assert option.started.simulate_args[:2] == ("--model", option.model)
        used = sum(option.machine.num_accelerators for option in fleet.parts)
        assert fleet.machine.num_accelerators - sum(each.num_idle for each in fleet.purchases) == used
        (whole, *rest) = fleet.purchases
        if not rest:  # each model pays for the accelerators that it uses
            each_usd = {round(one.bill.usd_per_hour / one.machine.num_accelerators, 6) for one in fleet.parts}
            assert each_usd == {round(whole.usd_per_hour / used, 6)}
    one = sized[0].plans["h100-sxm"][0]
    assert found.options[0].parts[0].layout.num_replicas == one.found.purchase.num_replicas


def test_models_share_machines_where_that_is_cheaper(found: Decision) -> None:
    best = min(found.options, key=lambda option: option.bill.usd_per_hour)
    assert {len(option.purchases) for option in found.options} == {
        1,
        2,
    }  # the node's rest, and a machine beside it
    assert len(best.purchases) == 2
    apart = found.extra["usd_per_hour_apart"]
    assert apart is not None
    assert best.bill.usd_per_hour <= apart
    shared = [option for option in found.options if any(each.shares_machines for each in option.purchases)]
    assert shared
    assert (f"${apart:.2f}/h" in saving(found)) is (found.options[0].bill.usd_per_hour <= 0.99 * apart)


@pytest.fixture(scope="module")
def shared(found: Decision) -> Option:
    """Replicas of three models on more than one machine, with some on which several stand."""
    return next(
        option
        for option in found.options
        if option.purchases[0].shares_machines
        and sum(each.count for bought in option.purchases for each in bought.machines) > 1
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_starts_every_replica_once(
    found: Decision, shared: Option, form: Format, tmp_path: Path
) -> None:
    files = emitted_models(shared, form)
    text = "\n".join(files.values())
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        if name.endswith((".sh", ".sbatch")):
            subprocess.run(["bash", "-n", file], check=True)
    for option in shared.parts:
        assert option.started.checkpoint.repository in text
        folder = re.sub(r"[^a-z0-9]+", "-", option.model)
        if form == "k8s":
            first = next(iter(yaml.safe_load_all(files[f"{folder}/plan.k8s.yaml"])))
            jsonschema.validate(first, SCHEMAS["kubernetes"]["Deployment"])
            assert first["spec"]["replicas"] == option.layout.num_replicas
        elif form == "slurm":
            assert f"--array=0-{option.layout.num_replicas - 1}\n" in files[f"{folder}/replicas.sbatch"]
        elif option.layout.num_replicas > 1:
            servers = re.findall(r"    server (\S+);", files[f"{folder}/nginx.conf"])
            assert len(set(servers)) == len(servers) == option.layout.num_replicas
    if form == "slurm":
        ports = re.findall(r"port=\$\(\((\d+) \+", text)
        assert len(set(ports)) == len(shared.parts)


@pytest.mark.parametrize("form", ["command", "docker"])
def test_replicas_of_one_machine_have_ports_and_accelerators_of_their_own(
    found: Decision,
    shared: Option,
    form: Format,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = emitted_models(shared, form)
    machines = [each for bought in shared.purchases for each in bought.machines]
    sizes = {part.model: part.layout.tensor_parallel for part in shared.parts}
    for number, machine in enumerate(machines, start=1):
        loops = files[f"machine-{number}.sh"].replace(
            "  docker run", 'echo "TOOK $port $devices"; : docker run'
        )
        loops = re.sub(r'  CUDA_VISIBLE_DEVICES="\$devices" .* &\n', 'echo "TOOK $port $devices"\n', loops)
        done = subprocess.run(["bash", "-c", loops], capture_output=True, text=True, check=True)
        took = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("TOOK")]
        devices = [int(each) for _, held in took for each in held.split(",")]
        assert len(took) == sum(machine.num_replicas.values())
        assert len({port for port, _ in took}) == len(took)
        assert sorted(devices) == list(range(machine.num_used))
        assert machine.num_used == sum(count * sizes[model] for model, count in machine.num_replicas.items())


def test_compose_gives_each_replica_its_accelerators(found: Decision, shared: Option) -> None:
    files = emitted_models(shared, "compose")
    machines = [each for bought in shared.purchases for each in bought.machines]
    for number, machine in enumerate(machines, start=1):
        content = yaml.safe_load(files[f"machine-{number}.compose.yaml"])
        jsonschema.validate(content, SCHEMAS["compose"])
        devices = list[str]()
        ports = list[str]()
        for service in content["services"].values():
            (held,) = service["deploy"]["resources"]["reservations"]["devices"]
            devices += held["device_ids"]
            ports += service["ports"]
        assert sorted(map(int, devices)) == list(range(machine.num_used))
        assert len(set(ports)) == len(ports) == sum(machine.num_replicas.values())


def test_services_that_rent_their_own_machines_share_none(found: Decision, shared: Option) -> None:
    with pytest.raises(AdvisorError, match="do not share machines"):
        emitted_models(shared, "skypilot")


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("8b@20,llama-3.1-8b@3", "names llama-3.1-8b twice"),
        ("8b@20,70b", "70b has no rate"),
        ("8b@20", "is for 2 to 6 models"),
        ("8b@20,70b@2:colour=red", "is no setting of a model"),
        ("8b@20,70b@2:profil=rag", "To fix: profile=VALUE"),
        ("8b@20,70b@2:profile", "is no setting of a model"),
        ("8b@20,,70b@2", "empty name"),
        ("8b@20,70b@2 --rate 3", "--models NAME@RATE"),
        ("8b@20,70b@2 --profile rag", "--models NAME@RATE:profile=VALUE"),
        ("8b@20,70b@2 --model 8b", "--model means nothing beside --models"),
        ("8b@20,70b@2 --concurrency 8", "--concurrency means nothing beside --models"),
        ("8b@20,70b@2 --adapters 8", "--adapters means nothing beside --models"),
        ("8b@20,70b@2 --plan p.json", "--plan means nothing beside --models"),
        ("8b@20,70b@2 --levers pools", "--levers pools does not act here"),
        ("8b@20,70b@2 --workload train", "--models means nothing for --workload train"),
    ],
)
def test_what_makes_no_sense_for_several_models_is_refused(cli: Cli, typed: str, word: str) -> None:
    run = cli(f"advisor recommend --models {typed}")
    assert run.code == 2, run.out
    assert word in run.err
    assert "To fix:" in run.err


def test_settings_of_a_model_are_its_own(cli: Cli) -> None:
    limits = "--gpu l40s --provider runpod --engine vllm --precision fp8 --fast"
    typed = "8b@2:input-tokens=100:output-tokens=50:tpot-p99=80ms,qwen3-4b@1:rate=3:engine=sglang"
    content = cli(f"advisor recommend --models {typed} {limits} --as-of 2026-11-20 --json").document()
    first, second = content["inputs"]["models"]
    assert (first["traffic"]["mean_input_tokens"], first["objectives"]["tpot_p99_s"]) == (100, 0.08)
    assert (second["traffic"]["rate_per_s"], second["objectives"]["tpot_p99_s"]) == (3.0, 0.1)
    engines = [part["layout"]["engine"] for part in content["options"][0]["parts"]]
    assert engines == ["vllm", "sglang"]
    assert content["kind"] == "fleet"


def test_a_budget_that_buys_nothing_names_one_that_does(cli: Cli) -> None:
    limits = "--gpu l40s --provider runpod --engine vllm --precision fp8 --fast --as-of 2026-11-20"
    models = "8b@2:input-tokens=100:output-tokens=50,qwen3-4b@1:input-tokens=100:output-tokens=50"
    run = cli(f"advisor recommend --models {models} {limits} --budget 1/h")
    assert run.code == 3
    (budget,) = re.findall(r"--budget (\S+)", run.err)
    assert cli(f"advisor recommend --models {models} {limits} --budget {budget}").code == 0
    cents = float(budget.removesuffix("/h")) - 0.01
    assert cli(f"advisor recommend --models {models} {limits} --budget {cents:.2f}/h").code == 3
