"""Every option of `advisor recommend` and `cost` changes the question that is asked, or is refused by name."""

import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from advisor.ask.acts import TRAINING, Acts, Work, acts_of, option_of, refuse_idle
from advisor.ask.batch import batch_question
from advisor.ask.distillation import student_of, teacher_of
from advisor.ask.inputs import fill_inputs, given_options, parameters_of
from advisor.ask.items import item_question
from advisor.ask.models import scenarios_of
from advisor.ask.options import SharedOptions
from advisor.ask.serving import serving_question
from advisor.ask.training import training_question
from advisor.ask.vision import vision_question
from advisor.catalog.errors import AdvisorError
from advisor.commands.cost.options import CostInput
from advisor.commands.recommend.options import RecommendInput
from advisor.commands.recommend.training_run import _from_plan

Cli = Callable[[str], Any]
SHARED = SharedOptions(as_of=datetime.date(2026, 11, 20))
FLAGS = ("fast", "guidance", "explain", "compute_optimal", "elastic", "what_if")
TRACE = "arrived_at_s,input_tokens,output_tokens\n0,900,90\n1,700,80\n2,900,70\n"
VALUES: dict[str, Any] = {
    "rate": "7", "concurrency": "16", "input_tokens": 700, "output_tokens": 90, "trace": Path("t.csv"),
    "trace_speed": 2.0, "profile": "rag", "ttft_p99": "5s", "tpot_p99": "55ms", "ttft_p95": "1s", "ttft_p50": "1s",
    "tpot_p95": "70ms", "tpot_p50": "70ms", "itl_p99": "1s", "e2e_p99": "90s", "headroom": 0.4, "redundancy": "n+1",
    "budget": "9/h", "goal": Path("goal.toml"), "engine": "sglang", "steps": 10, "image_size": "512x512",
    "query_tokens": 50, "runtime": "torch-eager", "max_batch": 2, "latency_p99": "9s", "images": 3,
    "image_scheme": "llava-1.5", "items": "50k", "sequence": 2048, "global_batch": 96, "method": "lora",
    "lora_rank": 64, "optimizer": "muon", "framework": "fsdp", "gpus": 8, "deadline": "3d", "tokens": "2B",
    "checkpoints": "sync", "mtbf_hours": 1000.0, "restart": "30min", "spot_losses_per_day": 3.0, "stragglers": 0.2,
    "algorithm": "ppo", "prompts": 64, "samples": 4, "rl_steps": 7, "placement": "colocated", "off_policy": 2,
    "teacher": "32b", "mean_length": 300, "precision": "fp8", "reward_time": "3s", "reward_model": "8b",
    "kv_precision": "fp8", "shared_prefix_tokens": 100, "shared_prefixes": 3, "sessions": 6.0, "turn_gap": "30s",
    "levers": "none", "acceptance": 0.5, "adapters": "50", "max_gpus": 32, "adapter_rank": 8, "adapter_slots": 9,
    "emit": "k8s", "emit_dir": Path("here"), "models": "8b@1,70b@1", "plan": Path("p.json"),
    "from_plan": Path("p.json"), "max_context": "64k", "model": "32b", "gpu": "b200-sxm", "provider": "aws",
    "own": "64xh200-sxm", "term": "spot", "tenancy": "shared", "residency": "de", "region": "france",
    "max_price_age": 9, "price_file": Path("mine.csv"), "power_budget": "5kW", "storage_tb": 2.0, "egress_tb": 3.0,
    "top": 3, "fast": True, "guidance": False, "explain": True, "compute_optimal": True, "elastic": True,
    "what_if": True,
    "tokens_per_day": "50M", "shape": "chat", "purchase_price": 9000.0, "api": "none",
    "api_price_file": Path("api.csv"), "assumptions": Path("own.toml"), "framework_version": "2024-06", "tp": 2,
    "pp": 2, "vpp": 2, "cp": 2, "ep": 2, "etp": 2, "dp": 2, "micro_batch": 2, "sharding": "none",
    "recompute": "selective", "schedule": "interleaved", "network": "RoCE 8x200Gb", "host_memory": "128GB",
    "power_cap_w": 500.0, "storage_gb_s": 20.0,
    "length_dist": "lognormal:0.9",
    "years": 3.0, "electricity": 0.3,
    "use_case": "code", "users": "100k", "requests_per_user": "20/h",
}  # fmt: skip
OPTIONS = {parameter.name: parameter.default for parameter in parameters_of(RecommendInput)}
ACTS: Mapping[str, Acts] = acts_of(RecommendInput)
WORK = get_args(Work)
IDLE = [(work, name) for work in WORK for name in OPTIONS if work not in ACTS[name].work]
BASE: dict[str, dict[str, Any]] = {
    "serve": {"model": "8b"},
    "batch": {"model": "8b"},
    "vision": {"model": "qwen3-vl-8b"},
    "diffusion": {"model": "dit-xl-2"},
    "embed": {"model": "bge-m3"},
    "rerank": {"model": "bge-m3"},
    "speech": {"model": "whisper-large-v3"},
    "train": {"model": "8b", "tokens": "1B"},
    "finetune": {"model": "8b"},
    "rl": {"model": "8b"},
    "distill": {"model": "8b", "teacher": "70b"},
}
NEEDS: dict[str, dict[str, Any]] = {
    "trace_speed": {"trace": Path("t.csv")},
    "shared_prefixes": {"shared_prefix_tokens": 100},
    "turn_gap": {"sessions": 3.0},
    "requests_per_user": {"users": "1000"},
    "acceptance": {"levers": "eagle"},
    "adapter_rank": {"adapters": "50"},
    "adapter_slots": {"adapters": "50"},
    "power_budget": {"own": "64xh200-sxm"},
    "lora_rank": {"method": "lora"},
    "framework_version": {"framework": "megatron"},
    "spot_losses_per_day": {"term": "spot"},
    "compute_optimal": {"tokens": None},
    "purchase_price": {"own": "8xh100-sxm"},
    "shape": {"rate": "3"},
}
"""Options that must be given too because an option means nothing alone."""
OTHER_MODEL = {
    "diffusion": "flux.1-dev",
    "embed": "bge-large-en",
    "rerank": "bge-large-en",
    "speech": "whisper-medium",
    "vision": "qwen3-vl-4b",
}
SHOWN = {"explain", "plan", "emit", "emit_dir", "goal", "models", "from_plan", "workload", "what_if"}
"""Options of what is shown, written, or asked instead: the commands' own tests cover them."""
REFUSED = {
    ("batch", "rate"),
    ("batch", "concurrency"),
    ("rl", "tokens"),
    ("rl", "compute_optimal"),
    ("train", "method"),
}
"""Options that are refused with words of their own."""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)


def input_with(work: str, **typed: Any) -> RecommendInput:
    found: RecommendInput = fill_inputs(RecommendInput, OPTIONS | BASE[work] | {"workload": work} | typed)
    return found


def question(asked: RecommendInput, typed: set[str]) -> list[Any]:
    """Question to the search, however it is answered; the day and the seed are those of every command."""
    refuse_idle(asked, typed)
    work = asked.workload
    if work == "serve":
        return [serving_question(asked, SHARED)[0]]
    if work in TRAINING:
        return [training_question(asked, SHARED)[0]]
    if work == "batch":
        return [*batch_question(asked.model or "", asked, SHARED)[:2]]
    if work == "vision":
        return [vision_question(asked, SHARED)[0]]
    if work == "distill":
        name, of_teacher = teacher_of(asked)
        scenario, job, _ = batch_question(name, of_teacher, SHARED)
        return [scenario, job, training_question(student_of(of_teacher, scenario.traffic), SHARED)[0]]
    return [item_question(asked, SHARED)[0]]


def cases() -> Iterator[tuple[str, str]]:
    for work in WORK:
        yield from ((work, name) for name in OPTIONS if work in ACTS[name].work and name not in SHOWN)


@pytest.mark.parametrize(("work", "name"), list(cases()), ids=str)
def test_an_option_that_acts_changes_the_question(work: str, name: str) -> None:
    value = OTHER_MODEL.get(work, VALUES[name]) if name == "model" else VALUES[name]
    if name == "budget" and work in ("train", "finetune", "rl"):
        value = "9000"
    more = NEEDS.get(name, {})
    if name == "compute_optimal" and work == "train":
        before = question(input_with(work), set())
    else:
        before = question(input_with(work, **more), set(more))
    changed = input_with(work, **more, **{name: value})
    if (work, name) not in REFUSED:
        assert question(changed, {*more, name}) != before
        return
    with pytest.raises(AdvisorError) as raised:
        question(changed, {*more, name})
    assert raised.value.fix


def test_every_option_says_for_which_work_it_acts() -> None:
    assert set(ACTS) == set(OPTIONS)
    assert all(one.work and one.work <= set(WORK) for one in ACTS.values())
    assert set(BASE) == set(WORK)


def test_an_option_that_would_do_nothing_is_refused() -> None:
    for work, name in IDLE:
        with pytest.raises(AdvisorError) as raised:
            refuse_idle(input_with(work, **{name: VALUES[name]}), {name, "workload"})
        assert raised.value.what == f"{option_of(name)} means nothing for --workload {work}"
        assert raised.value.fix
        if OPTIONS[name] is not None:
            with pytest.raises(AdvisorError):
                refuse_idle(input_with(work), {name, "workload"})


@pytest.mark.parametrize(
    ("work", "typed", "fix"),
    [
        ("finetune", {"lora_rank": 64}, "--method lora"),
        ("rl", {"samples": 4, "algorithm": "dpo"}, "--algorithm grpo"),
        ("rl", {"placement": "colocated", "algorithm": "dpo"}, "--algorithm grpo"),
        ("rl", {"reward_model": "qwen3-8b", "algorithm": "reward"}, "--algorithm grpo"),
        ("rl", {"reward_time": "10s", "algorithm": "kto"}, "--algorithm grpo"),
        ("rl", {"off_policy": 2, "placement": "colocated"}, "--placement disaggregated"),
        ("batch", {"spot_losses_per_day": 3.0}, "--term spot"),
        ("train", {"spot_losses_per_day": 3.0}, "--term spot"),
        ("serve", {"turn_gap": "30s"}, "--sessions"),
        ("serve", {"adapter_rank": 8}, "--adapters"),
        ("serve", {"acceptance": 0.5}, "--levers"),
        ("serve", {"trace_speed": 2.0}, "--trace"),
        ("serve", {"shared_prefixes": 2}, "--shared-prefix-tokens"),
        ("serve", {"power_budget": "5kW"}, "--own"),
    ],
)
def test_an_option_that_acts_beside_another_alone_is_refused_without_it(
    work: str, typed: dict[str, Any], fix: str
) -> None:
    with pytest.raises(AdvisorError) as raised:
        question(input_with(work, **typed), set(typed))
    assert fix in raised.value.fix


def test_a_refusal_reaches_the_terminal(cli: Cli) -> None:
    run = cli("advisor recommend --model 8b --workload train --tokens 1B --rate 7")
    assert run.code == 2
    assert "--rate means nothing for --workload train" in run.err
    assert "why: it acts for serve, diffusion, embed, rerank, speech, vision, batch" in run.err
    assert "To fix:" in run.err


def words_of(name: str, value: Any) -> str:
    """An option as typed."""
    if name == "guidance":
        return "--guidance" if value else "--no-guidance"
    return f"--{name.replace('_', '-')}" + ("" if name in FLAGS else f" '{value}'")


COST = {parameter.name: parameter.default for parameter in parameters_of(CostInput)}


@pytest.mark.parametrize("name", [name for name in COST if name not in ("model", "what_if")])
def test_an_option_of_cost_changes_its_question_or_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class AskedError(AdvisorError):
        pass

    def keep(found: Any, **_: Any) -> Any:
        questions.append(found)
        raise AskedError("asked")

    questions: list[Any] = []
    monkeypatch.setattr("advisor.commands.cost.run.priced_report", keep)
    more = NEEDS.get(name, {})
    beside = " ".join(words_of(other, value) for other, value in more.items())
    value = {"own": "8xh100-sxm", "region": "sweden"}.get(name, VALUES[name])
    cli(f"advisor cost --model 8b --as-of 2026-11-20 {beside}")
    run = cli(f"advisor cost --model 8b --as-of 2026-11-20 {beside} {words_of(name, value)}")
    assert run.code == 2
    if len(questions) == 1:
        assert name.replace("_", "-") in run.err, run.err
        assert "To fix" in run.err
    else:
        assert questions[0] != questions[1]


SEVERAL = [name for name, one in ACTS.items() if one.beside_models and name not in SHOWN - {"plan"}]


@pytest.mark.parametrize("name", SEVERAL)
def test_an_option_beside_several_models_changes_their_questions(name: str) -> None:
    def inputs_of_both(**typed: Any) -> Any:
        asked = input_with("serve", model=None, models="8b@1,70b@1", **typed)
        refuse_idle(asked, set(typed))
        found = scenarios_of(
            "8b@1,70b@1", asked.objectives, asked.where, asked.levers, asked.beside, asked.shown.top, SHARED
        )[0]
        return found, asked.fast, asked.objectives.budget  # the last two are of the whole fleet

    more = NEEDS.get(name, {})
    assert inputs_of_both(**more) != inputs_of_both(**more, **{name: VALUES[name]})


def test_what_each_of_several_models_has_is_refused_for_all(cli: Cli) -> None:
    run = cli("advisor recommend --models 8b@1,70b@1 --profile rag")
    assert "--profile means nothing beside --models" in run.err
    assert "--models NAME@RATE:profile=VALUE" in run.err
    run = cli("advisor recommend --models 8b@1,70b@1 --sessions 3")
    assert "it is of one model" in run.err


def test_what_differs_from_the_default_or_was_typed_was_given() -> None:
    assert given_options(RecommendInput()) == []
    assert given_options(RecommendInput(model="8b")) == ["model"]
    assert given_options(RecommendInput(model="8b"), frozenset({"headroom", "seed"})) == ["model", "headroom"]


def test_an_option_typed_with_its_default_was_given(cli: Cli, plan: Path) -> None:
    run = cli("advisor recommend --model bge-m3 --workload embed --headroom 0.2")
    assert "--headroom means nothing for --workload embed" in run.err
    run = cli(f"advisor recommend --from {plan} --gpus 16 --optimizer adamw")
    assert "--optimizer means nothing beside --from" in run.err
    run = cli("advisor recommend --own 8xh100-sxm --model 8b --term on-demand")
    assert "--own and --term exclude each other" in run.err


LIMITS = {
    "gpus": 256,
    "deadline": "9d",
    "budget": "90000",
    "gpu": "b200-sxm",
    "provider": "aws",
    "own": "64xh200-sxm",
    "term": "spot",
    "tenancy": "shared",
    "residency": "eu",
    "region": "france",
    "max_price_age": 9,
    "price_file": Path("mine.csv"),
    "power_budget": "5kW",
    "storage_tb": 2.0,
    "egress_tb": 3.0,
}


def input_of_plan(**typed: Any) -> RecommendInput:
    found: RecommendInput = fill_inputs(RecommendInput, OPTIONS | typed)
    return found


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    question = input_of_plan(model="8b", workload="train", tokens="1B", gpus=8)
    scenario, _ = training_question(question, SharedOptions(as_of=datetime.date(2026, 11, 20)))
    option = {"machine": {"accelerator": "h100-sxm", "num_accelerators": 8}, "plan": {"words": "DP8"}}
    file = tmp_path / "plan.json"
    inputs = json.loads(scenario.model_dump_json())
    file.write_text(json.dumps({"kind": "plan", "schema_version": 2, "inputs": inputs, "options": [option]}))
    return file


@pytest.mark.parametrize("name", [name for name in OPTIONS if not ACTS[name].beside_plan])
def test_what_a_plan_says_already_is_refused_beside_it(cli: Cli, plan: Path, name: str) -> None:
    option = f"--{name.replace('_', '-')}"
    run = cli(f"advisor recommend --from {plan} --gpus 16 {words_of(name, VALUES[name])}")
    assert run.code == 2, run.out
    assert f"{option} means nothing beside --from" in run.err


def test_limits_beside_a_plan_are_all_known() -> None:
    again = {"from_plan", "model", "workload", "top", "plan", "explain"}
    assert set(LIMITS) | again == {name for name, one in ACTS.items() if one.beside_plan}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_beside_a_plan_changes_its_question(plan: Path, name: str) -> None:
    base, _ = _from_plan(plan, input_of_plan(max_price_age=99), SharedOptions())
    more = {"own": "64xh200-sxm"} if name == "power_budget" else {}
    if more:
        base, _ = _from_plan(plan, input_of_plan(max_price_age=99, **more), SharedOptions())
    changed, _ = _from_plan(
        plan, input_of_plan(**{"max_price_age": 99, name: LIMITS[name]} | more), SharedOptions()
    )
    assert changed.limits != base.limits
    assert changed.task == base.task


SAYS_NOTHING_OF_THE_QUESTION = {"json", "output", "quiet", "verbose", "no_input", "offline", "trust_config"}
OF_ALL = {"seed": 7, "as_of": datetime.date(2026, 11, 1), "calibration": None}


def test_options_of_all_commands_beside_a_plan_are_all_known() -> None:
    assert set(OF_ALL) | SAYS_NOTHING_OF_THE_QUESTION == {each.name for each in parameters_of(SharedOptions)}


@pytest.mark.parametrize("name", OF_ALL)
def test_what_every_command_has_changes_a_plans_question(plan: Path, tmp_path: Path, name: str) -> None:
    typed = OF_ALL[name]
    if name == "calibration":
        typed = tmp_path / "calibration.json"
        measured = {"kind": "calibration", "accelerator": "h100-sxm", "bandwidth_bytes_per_s": 3e12}
        typed.write_text(json.dumps(measured))
    again, notes = _from_plan(plan, input_of_plan(), SharedOptions(**{name: typed}))
    base, _ = _from_plan(plan, input_of_plan(max_price_age=99), SharedOptions())
    assert getattr(again, name) not in (None, getattr(base, name))
    assert name == "calibration" or str(typed) in notes[1]


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("", "needs what shall change"),
        ("--top 3", "needs what shall change"),
        ("--gpus 16 --workload finetune", "is of --workload train"),
        ("--gpus 16 --model 70b", "is of --model llama-3.1-8b"),
        ("--own 8xh100-sxm --provider aws", "exclude each other"),
        ("--gpus 16 --power-budget 5kW", "machines of your own"),
    ],
)
def test_what_contradicts_a_plan_is_refused(cli: Cli, plan: Path, typed: str, word: str) -> None:
    run = cli(f"advisor recommend --from {plan} {typed}")
    assert run.code == 2, run.out
    assert word in run.err


@pytest.mark.parametrize(
    ("question", "fix"),
    [
        ("finetune --model 8b --tokens 10M --adapters qlora", "--method qlora"),
        ("finetune --model 8b --tokens 10M --use-case LoRA", "--method lora"),
        ("rl --model 8b --rl-steps 10 --use-case GRPO", "--algorithm grpo"),
        ("finetune --model 8b --tokens 10M --adapters 50", "drop --adapters"),
    ],
)
def test_a_value_that_another_option_takes_names_that_option(cli: Cli, question: str, fix: str) -> None:
    """Dropping the option would plan other work than was asked for: all weights instead of QLoRA."""
    run = cli(f"advisor recommend --workload {question}")
    assert run.code == 2
    assert f"To fix: {fix}" in run.err
