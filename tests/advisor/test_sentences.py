"""Questions typed as sentences: what they say becomes options, and what is not understood is named."""

import datetime
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.ask.options import ObjectiveOptions
from advisor.ask.scenario import MODEL_OF_WORK, parse_own
from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.catalog.prices import all_providers, provider_names
from advisor.cli.sentence import options_of_sentence

Cli = Callable[[str], Any]


def read_sentences() -> list[tuple[str, dict[str, str]]]:
    """Return the sentences of a table and the options that each of them states."""
    lines = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [(text, as_options(shlex.split(words))) for text, words in (line.split("\t") for line in lines)]


def as_options(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def understand(text: str) -> dict[str, str]:
    return as_options(options_of_sentence(text)[0])


@pytest.mark.parametrize(("text", "options"), read_sentences())
def test_a_sentence_is_the_options_that_it_states(text: str, options: dict[str, str]) -> None:
    assert understand(text) == options
    assert understand(text.upper()) == options


@pytest.mark.parametrize("name", ["RTX 4090", "H100", "L40S", "MI300X", "4090"])
def test_accelerators_count_wherever_and_however_they_stand(name: str) -> None:
    two = understand(f"chat on 2x {name}")
    for text in (
        "I have 2 {0}s, chat",
        "chat with two {0}",
        "chat on dual {0} GPUs",
        "chat, {0} x2",
        "2 × {0}: chat",
    ):
        assert understand(text.format(name)) == two, text
    one = understand(f"chat on my {name}")
    assert one == {**two, "--own": two["--own"].replace("2x", "1x")}
    for text in ("I own a {0}, chat", "chat on a single {0}", "chat with our {0}?"):
        assert understand(text.format(name)) == one, text
    for text in ("chat on a {0}", "chat on {0}s"):
        assert understand(text.format(name)) == {"--use-case": "chatbot", "--gpu": two["--own"][2:]}, text


@pytest.mark.parametrize(
    ("board", "near"),
    [("2x RTX 5095", "rtx-5090"), ("8 H105 GPUs", "h100-sxm"), ("MI375X", "mi355x"), ("a Foobar X9000", "")],
)
def test_an_accelerator_that_the_catalog_lacks_is_named_with_near_misses(board: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        options_of_sentence(f"qwen3-32b on {board} for 10 users")
    assert near in raised.value.hint


@pytest.mark.parametrize(
    "nodes",
    [
        *("2 nodes of 8x {0}", "2 nodes, each: 8x {0}", "two servers with 8 {0} each", "2 machines: 8 x {0}"),
        *("8x {0} per node, 2 nodes", "2 Knoten mit je 8x {0}", "2 serveurs avec 8x {0}"),
    ],
)
@pytest.mark.parametrize("name", ["H100", "RTX 4090", "L40S"])
def test_nodes_multiply_what_each_of_them_holds(name: str, nodes: str, tmp_path: Path) -> None:
    text = nodes.format(name)
    ((count, id_),) = parse_own(f"16x {name}").counts
    assert understand(f"chat on {text}")["--own"] == f"{count}x{id_}"
    note = tmp_path / "machines.txt"
    note.write_text(text.replace("two", "2"))
    assert parse_own(str(note)).counts == parse_own(text.replace("two", "2")).counts == ((count, id_),)
    assert "2 nodes" in " ".join(options_of_sentence(f"chat with 2 nodes and a {name}")[1])


def test_a_number_behind_that_of_nodes_is_of_each_unless_the_text_says_otherwise() -> None:
    of_each = parse_own("2 nodes, 8x H100")
    assert of_each.counts == ((16, "h100-sxm"),)
    assert "each of the 2 nodes" in of_each.notes[0]
    assert "each of the 2 nodes" in " ".join(options_of_sentence("we have 2 nodes, 8x H100, 70b")[1])
    for in_all in (
        "2 nodes, 8 H100 in total",
        "2 nodes, 16x H100",
        "16x H100 across 2 nodes",
        "16 H100 (2 nodes)",
    ):
        ((count, _),) = parse_own(in_all).counts
        assert count == (8 if "total" in in_all else 16), in_all


@pytest.mark.parametrize(
    "time",
    [
        "{0} < 300ms",
        "{0} under 300 ms",
        "p99 {0} of 300ms",
        "{0}: 300ms",
        "300ms {0}",
        "{0} <= 300 ms",
        "at most 300ms {0}",
    ],
)
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("ttft", "--ttft-p99"),
        ("time to first token", "--ttft-p99"),
        ("tpot", "--tpot-p99"),
        ("itl", "--tpot-p99"),
    ],
)
def test_a_limit_is_read_in_any_order(name: str, option: str, time: str) -> None:
    found = understand(f"qwen3-8b at 5 rps, {time.format(name)}")
    assert found.pop(option).replace(" ", "") == "300ms"
    assert found == {"--model": "qwen3-8b", "--rate": "5/second"}


@pytest.mark.parametrize(
    "money",
    [
        "2000 EUR per month",
        "2000 € pro Monat",
        "2000 € par mois",
        "€2000/month",
        "£5 an hour",
        "$10,000",
        "budget 3000",
    ],
)
def test_money_that_is_no_dollars_per_time_is_refused_with_what_to_type(money: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        options_of_sentence(f"a chatbot for 200 users, {money}")
    assert "--budget" in refused.value.fix


def test_a_day_of_the_week_is_its_next_one() -> None:
    day = datetime.date.today() + datetime.timedelta(days=3)
    assert understand(f"summarise 2 million documents by {day:%A}")["--deadline"] == "3d"
    today = datetime.date.today()
    assert understand(f"summarise 2 million documents by {today:%A}")["--deadline"] == "7d"


def test_what_is_not_understood_is_named_and_nothing_at_all_is_refused() -> None:
    _, notes = options_of_sentence("RAG over 50k pages")
    assert "50k pages" in notes[-1]
    with pytest.raises(AdvisorError, match="not understood") as refused:
        options_of_sentence("hello world")
    assert "--use-case" in refused.value.fix


def test_a_sentence_is_answered_as_its_options_and_typed_ones_count_first(cli: Cli) -> None:
    asked = "advisor recommend --model 8b --gpu h100-sxm --fast --json"
    said = cli(f"{asked} a chatbot for 1M users").document()
    for quoted in (f"{asked} 'a chatbot for 1M users'", f"{asked} 'A chatbot for 1M users?' --top 5"):
        assert cli(quoted).document()["inputs"] == said["inputs"]
    assert said["inputs"] == cli(f"{asked} --use-case chatbot --users 1M").document()["inputs"]
    assert cli(f"{asked} 'a chatbot for 1M users'").document()["inputs"] == said["inputs"]
    assert cli("advisor recommend nonsense").code == 2
    assert "not understood" in cli("advisor recommend 'hello there'").err


@pytest.mark.parametrize("metric", ["TTFT", "time to first token", "TPOT", "end-to-end latency"])
@pytest.mark.parametrize(
    ("statistic", "suffix"),
    [
        ("p99", "p99"),
        ("", "p99"),
        ("p95", "p95"),
        ("95th percentile", "p95"),
        ("median", "p50"),
        ("p90", ""),
        ("average", ""),
    ],
)
def test_a_limit_holds_at_the_percentile_that_is_named_or_is_refused(
    metric: str, statistic: str, suffix: str
) -> None:
    """Each metric has options for some percentiles; a limit at another one says which there are."""
    own = {"TTFT": "ttft", "time to first token": "ttft", "TPOT": "tpot"}.get(metric, "e2e")
    option = f"--{own}-{suffix}"
    for text in (
        f"8b at 2 rps, {statistic} {metric} under 900 ms",
        f"8b at 2 rps, {metric} {statistic} < 900 ms",
    ):
        if suffix and f"{own}_{suffix}" in ObjectiveOptions.__dataclass_fields__:
            assert understand(text)[option] == "900 ms"
        else:
            with pytest.raises(AdvisorError, match="no objective limits the") as caught:
                options_of_sentence(text)
            assert f"--{own}-p99" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("text", "work"),
    [
        ("embeddings for 500 users", {"--workload": "embed", "--users": "500"}),
        ("speech to text for 200 users", {"--workload": "speech", "--users": "200"}),
        ("fine-tune an 8b for 20 users", {"--workload": "finetune", "--model": "8b"}),
        (
            "grpo on qwen3-8b for 10 researchers",
            {"--workload": "rl", "--algorithm": "grpo", "--model": "qwen3-8b"},
        ),
        ("a training assistant for 300 employees", {"--use-case": "chatbot", "--users": "300"}),
    ],
)
def test_people_do_not_make_other_work_serving(text: str, work: dict[str, str]) -> None:
    """A command whose work has no users refuses them; what is trained is not used yet."""
    assert understand(text) == work


def test_a_latency_with_a_percentile_says_of_what() -> None:
    with pytest.raises(AdvisorError, match="first token or of the whole output"):
        options_of_sentence("8b at 5 rps, p95 latency under 10s")
    assert understand("bge-m3 embeddings 20 rps, p99 latency 200ms")["--latency-p99"] == "200ms"


def test_a_question_about_memory_alone_is_told_which_command_answers_it() -> None:
    with pytest.raises(AdvisorError, match="asks for memory alone") as caught:
        options_of_sentence("how much vram for qwen3-32b at 32k context with fp8 kv cache")
    for words in ("--model qwen3-32b", "--context 32k", "--kv-precision fp8"):
        assert words in (caught.value.fix or "")
    assert understand("how much vram for 20 users of qwen3-32b")["--users"] == "20"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "Is 2x RTX 3060 12GB enough for Qwen3 14B Q8 with 32k context?",
            "--context 32k --precision q8_0 --model qwen3-14b --gpu 2xrtx-3060-12gb",
        ),
        ("will gpt-oss-120b fit on 2x 5090", "--model gpt-oss-120b --gpu 2xrtx-5090"),
        ("Can Llama 3.1 70B run on a 4090?", "--gpu rtx-4090 --model llama-3.1-70b"),
        ("does qwen3-32b run on a Mac Studio M3 Ultra with 256GB", "--model qwen3-32b --gpu m3-ultra-256gb"),
        ("can I run DeepSeek R1 on a 512GB Mac Studio?", "--model deepseek-r1 --gpu m3-ultra"),
    ],
)
def test_whether_machines_hold_a_model_is_a_question_of_memory(text: str, command: str) -> None:
    with pytest.raises(AdvisorError, match="memory alone") as caught:
        understand(text)
    assert (caught.value.fix or "").startswith(f"advisor memory {command},")


def test_a_load_makes_it_a_question_of_speed() -> None:
    assert understand("are 2x L40S enough for qwen3-32b and 20 users")["--users"] == "20"
    assert understand("can I rent an H100 to run llama-3.1-70b")["--gpu"] == "h100-sxm"


def test_the_speed_of_one_request_is_a_question_of_a_simulation() -> None:
    with pytest.raises(AdvisorError, match="speed of one request") as caught:
        understand("how many tokens per second will llama 3.3 70b q4 do on 2x 3090")
    assert (caught.value.fix or "").startswith(
        "advisor simulate serve --model llama-3.3-70b --precision q4_k_m --gpu 2xrtx-3090 --concurrency 1"
    )
    with pytest.raises(AdvisorError, match="speed of one request") as caught:
        understand("can I run Qwen3 235B on 2x 3090 and 128GB RAM, what tokens per second to expect")
    assert "--host-experts all" in (caught.value.fix or "")


def test_whether_a_measured_speed_is_the_usual_one_is_a_question_of_a_simulation() -> None:
    with pytest.raises(AdvisorError, match="the speed of one request") as refused:
        options_of_sentence("I get 25 tok/s on my RTX 4090 with llama 70b, is that normal?")
    assert "simulate serve --model llama-70b --gpu 1xrtx-4090" in (refused.value.fix or "")
    limited, _ = options_of_sentence("llama 70b at 25 tok/s on my RTX 4090, for 3 good users")
    assert "--tpot-p99" in limited


@pytest.mark.parametrize("words", ["spot", "on spot instances", "at spot prices", "preemptible"])
def test_terms_of_rent_are_read_and_are_none_of_own_machines(words: str) -> None:
    rented, notes = options_of_sentence(f"llama 70b at 2 rps, {words}")
    assert rented[rented.index("--term") + 1] == "spot"
    assert not any("not part" in note for note in notes)
    both, _ = options_of_sentence(f"llama 70b at 2 rps, {words} or on demand")
    assert both[both.index("--term") + 1] == "spot,on-demand"
    owned, _ = options_of_sentence(f"llama 70b at 2 rps on my 2 H100, {words}")
    assert "--term" not in owned


def test_the_speed_on_a_named_card_is_that_of_one_request() -> None:
    with pytest.raises(AdvisorError, match="speed of one request") as caught:
        understand("how fast is Qwen3 14B on an RTX 4070?")
    assert (caught.value.fix or "").startswith("advisor simulate serve --model qwen3-14b --gpu rtx-4070")


def test_work_that_nobody_waits_for_has_a_loose_limit() -> None:
    """Recordings of a day or a month, and whatever has a deadline, are written down later; a typed limit counts."""
    assert understand("transcribe 10,000 hours of audio a month")["--latency-p99"] == "60s"
    assert understand("embed 20 million documents in 2 days")["--deadline"] == "2 days"
    assert understand("transcribe 500 hours of audio a day within 5 seconds")["--latency-p99"] == "5 seconds"
    assert "--latency-p99" not in understand("embed 20 million documents a day")


@pytest.mark.parametrize(("case", "words"), [("rag", "RAG"), ("code", "coding")])
def test_users_of_a_chatbot_chat_whatever_else_it_does(case: str, words: str) -> None:
    said = understand(f"a {words} chatbot for 200 users")
    assert (said["--use-case"], said["--requests-per-user"]) == (case, "3.7/day")
    assert "--requests-per-user" not in understand("a chatbot for 200 users")


@pytest.mark.parametrize(
    "text",
    [
        "Is it cheaper to run llama 3.3 70b myself or use an API for 5M tokens a day?",
        "self-host qwen3-32b vs api, 10 requests per second",
    ],
)
def test_a_choice_between_machines_and_an_api_is_a_question_of_cost(text: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        options_of_sentence(text)
    assert caught.value.fix.startswith("advisor cost --model ")
    assert "--rate" in caught.value.fix


@pytest.mark.parametrize(
    "text",
    [
        "is it cheaper to serve llama 8b and qwen 32b together on 2 h100",
        "llama 70b for 30 users who work together, at 2 requests per second, l40s vs h100",
    ],
)
def test_a_word_that_a_seller_has_too_asks_for_no_api(text: str) -> None:
    assert "--model" in options_of_sentence(text)[0]


@pytest.mark.parametrize(
    "command",
    [
        "advisor recommend 'is a chatbot with llama 70b for 1000 users cheaper than an API?'",
        "advisor recommend 'qwen3 32b for 40 developers or an API, which is cheaper?'",
        "advisor cost 'a summary service with qwen3 14b for 200 users or an API?'",
        "advisor recommend 'should I rent or buy for 70b at 100M tokens a day'",
    ],
)
def test_a_sentence_in_the_wrong_place_is_told_a_command_that_answers(cli: Cli, command: str) -> None:
    refused = cli(command)
    assert refused.code == 2
    fix = refused.err.partition("To fix: ")[2].partition("\n")[0]
    assert fix.startswith("advisor cost --")
    assert cli(f"{fix} --gpu h100 --levers none").code == 0


@pytest.mark.parametrize(
    "command",
    [
        "advisor cost 'what does llama 70b cost at 5 requests per second'",
        "advisor cost 'a chatbot for 1,000 users' --model 8b",
    ],
)
def test_a_sentence_is_a_question_of_cost_too(cli: Cli, command: str) -> None:
    answered = cli(f"{command} --gpu h100 --levers none")
    assert (answered.code, "understood as" in answered.err) == (0, True)


def test_pages_and_words_are_lengths_and_a_translation_is_as_long_as_its_text() -> None:
    asked = understand("translate 500k documents of 3 pages each over a weekend using gemma-3-27b")
    assert asked["--input-tokens"] == asked["--output-tokens"] == "2000"
    assert understand("summarise 20k reports of 300 words each by tomorrow")["--input-tokens"] == "400"
    whole = understand("translate 3 billion words with gemma-3-27b within a month")
    assert (whole["--items"], whole["--output-tokens"]) == ("6000000", "667")
    assert "--items" not in understand("RAG over 50k pages")


def test_lengths_stand_behind_their_names_too() -> None:
    asked = understand("qwen3-8b for 300 users, average prompt 3k tokens, answers of about 500 tokens")
    assert (asked["--input-tokens"], asked["--output-tokens"]) == ("3k", "500")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "which GPU should I buy for 15 developers with qwen3-32b, 12000 dollars",
            "--budget 12000 --model qwen3-32b",
        ),
        ("what server should we buy for 10000 EUR to run qwen3-32b", "--budget USD --model qwen3-32b"),
    ],
)
def test_a_purchase_is_told_the_command_that_plans_it(text: str, command: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        options_of_sentence(text)
    assert f"advisor build {command}" in raised.value.fix
    assert "--budget" in options_of_sentence("rent for 2000 dollars a month, qwen3-32b for 20 users")[0]


def test_the_whole_of_a_job_about_items_has_its_cost(cli: Cli) -> None:
    asked = "advisor recommend --workload embed --model bge-m3 --gpu l40s --items 100M"
    answer = cli(f"{asked} --deadline 2d")
    assert answer.code == 0
    assert "All 100,000,000 texts in 48 h cost $" in " ".join(answer.out.split())
    assert "24h is taken" in cli(asked).err
    assert cli(f"{asked} --rate 3").code == 2


def test_adapters_that_are_served_and_streams_that_are_heard_are_loads() -> None:
    assert understand("serve 20 LoRA adapters on llama-3.1-8b at 5 requests/s") == {
        "--adapters": "20",
        "--rate": "5/second",
        "--model": "llama-3.1-8b",
    }
    assert understand("whisper-large-v3 for 60 live streams")["--rate"] == "2/second"
    assert understand("chat for one user")["--users"] == understand("chat just for myself")["--users"] == "1"


def test_a_model_that_the_catalog_lacks_is_named_and_a_second_one_is_told() -> None:
    with pytest.raises(UnknownNameError) as raised:
        options_of_sentence("chat for 5k students, 200 at once, model mistral-smal")
    assert "mistral-small" in raised.value.hint
    options, notes = options_of_sentence("serve 2 models: llama-3.3-70b and qwen3-8b, 50 users each")
    assert any("qwen3-8b is another" in note for note in notes)
    assert options


def test_work_has_a_bare_deadline_and_its_words_are_no_items() -> None:
    assert understand("OCR 100k documents with qwen2.5-vl-7b, 3 days")["--deadline"] == "3 days"
    assert "--items" not in understand("speech to text for 200 call center agents with whisper-large-v3")


def test_images_are_work_of_a_model_that_sees() -> None:
    assert understand("deploy qwen3-vl-8b, 10 images per second at 1024x1024") == {
        "--workload": "vision",
        "--rate": "10/second",
        "--image-size": "1024x1024",
        "--model": "qwen3-vl-8b",
    }
    assert understand("caption 1 million photos with qwen2.5-vl-7b in 2 days")["--rate"] == "500000/day"
    assert understand("qwen3-vl-8b chatbot for 50 users")["--use-case"] == "chatbot"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("4 old tesla P40, what models fit?", "--own 4xp40"),
        ("chatbot for 100 users on 2 used rtx 4090 24gb", "--own 2xrtx-4090"),
        ("what can I run on a laptop with RTX 3060 6GB", "--own 1xrtx-3060-laptop"),
        ("what can I run on my laptop RTX 4060 8GB", "--own 1xrtx-4060-laptop"),
        ("what models fit on 2 rtx 3090 48gb", "--own 2xrtx-3090"),
    ],
)
def test_words_around_a_board_say_how_many_and_which_one(text: str, option: str) -> None:
    name, _, value = option.partition(" ")
    options, notes = options_of_sentence(text)
    assert dict(zip(options[::2], options[1::2], strict=True))[name] == value
    assert not any("gb" in note or "old" in note for note in notes if "not part" in note)


def test_a_memory_that_no_board_of_the_name_has_is_refused() -> None:
    with pytest.raises(AdvisorError, match="has 12 GiB in the catalog, not 6"):
        options_of_sentence("what can I run on an RTX 3060 6GB")


def test_which_format_fits_is_a_question_of_memory() -> None:
    with pytest.raises(AdvisorError, match="which format fits") as refused:
        options_of_sentence("which quant of qwen2.5 coder 32b for a 24gb 3090, context 32k")
    assert refused.value.fix.startswith("advisor memory ")
    assert "--precision q4_k_m" in refused.value.fix


@pytest.mark.parametrize(
    "text", ["ollama run llama3.1:8b on my laptop RTX 4060 8GB", "ollama run qwen3:8b on 2 P40s"]
)
def test_a_question_that_begins_as_a_command_is_a_question(text: str, cli: Cli) -> None:
    run = cli(f"advisor recommend '{text}'")
    assert "understood as" in run.err or "asks for" in run.err


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("which model for strix halo", "1xstrix-halo-8060s"),
        ("best coding model for strix halo 128gb", "1xstrix-halo-8060s"),
        ("what can a 3060 run", "1xrtx-3060-12gb"),
        ("models for dgx spark", "1xgb10"),
        ("top local llms on a 5090", "1xrtx-5090"),
        ("llama 70b on strix halo", "1xstrix-halo-8060s"),
    ],
)
def test_machines_that_no_provider_rents_out_and_what_runs_on_one_are_owned(typed: str, own: str) -> None:
    assert understand(typed)["--own"] == own


def test_a_provider_is_read_by_every_name_that_it_has() -> None:
    for name, id_ in provider_names().items():
        said = understand(f"8x H100 on {name}: qwen3-8b")
        assert (said.get("--provider"), said["--gpu"]) == (id_, "8xh100-sxm"), name


@pytest.mark.parametrize("name", sorted(all_providers()))
def test_a_provider_is_read_wherever_it_stands_and_owns_no_hardware_of_mine(name: str) -> None:
    for text in (
        "qwen3-8b at 5 req/s on {0}",
        "on {0} with qwen3-8b at 5 req/s",
        "train a 7B on 1T tokens via {0}",
    ):
        assert understand(text.format(name))["--provider"] == name, text
    assert "--provider" not in understand(f"qwen3-8b on my 2x H100, not with our {name} at 5 req/s")


def test_several_providers_are_alternatives_and_places_stay() -> None:
    for text in ("using azure or gcp", "on Azure, Google Cloud", "azure/gcp"):
        assert understand(f"qwen3-8b at 5 req/s {text}")["--provider"] == "azure,gcp", text
    said = understand("qwen3-8b at 5 req/s on aws in frankfurt, spot")
    assert (said["--provider"], said["--residency"], said["--term"]) == ("aws", "de", "spot")


@pytest.mark.parametrize(
    "text",
    [
        "embed 1M amazon reviews with bge-m3",
        "google gemma-3-27b at 5 req/s",
        "microsoft phi-4 at 3 req/s",
        "fine-tune qwen3-8b on google search queries",
        "qwen3-8b for 100 users who work together",
    ],
)
def test_a_word_that_is_also_a_providers_name_limits_nothing(text: str) -> None:
    assert "--provider" not in understand(text)


@pytest.mark.parametrize("word", ["not on", "without", "anything but", "except", "no"])
def test_what_a_question_leaves_out_stops_it_with_what_may_be_taken(word: str) -> None:
    with pytest.raises(AdvisorError) as without_provider:
        options_of_sentence(f"qwen3-8b at 5 req/s {word} aws")
    taken = without_provider.value.fix.partition("--provider ")[2].split(",")
    assert {*taken} == all_providers().keys() - {"aws"}
    with pytest.raises(AdvisorError, match="leaves accelerators out") as without_maker:
        options_of_sentence(f"qwen3-8b at 5 req/s {word} nvidia gpus")
    assert "amd" in without_maker.value.fix


def test_a_provider_without_a_price_stops_a_question() -> None:
    for name in ("OVH", "Hetzner", "Scaleway"):
        with pytest.raises(AdvisorError, match=f"no price of '{name.lower()}'"):
            options_of_sentence(f"qwen3-8b at 5 req/s on {name}")


@pytest.mark.parametrize(
    ("words", "named"),
    [("AMD", "amd"), ("TPUs", "tpu"), ("NVIDIA or AMD", "nvidia,amd"), ("Google TPUs", "tpu")],
)
def test_a_maker_or_family_is_all_of_its_accelerators(words: str, named: str) -> None:
    assert understand(f"qwen3-8b at 5 req/s on {words}")["--gpu"] == named
    for name in named.split(","):
        ids = accelerators.of_family(name)
        assert ids
        assert {accelerators.by_id(id_).vendor for id_ in ids} < {"amd", "google", "nvidia", "aws"}


@pytest.mark.parametrize(
    "words", ["rent or buy", "buy or rent", "own or rent", "rent vs own", "rent machines or to buy"]
)
def test_renting_or_buying_is_a_question_of_cost(words: str) -> None:
    with pytest.raises(AdvisorError, match="rent machines or to buy") as caught:
        options_of_sentence(f"should we {words} for qwen3-32b at 5 req/s?")
    assert caught.value.fix == "advisor cost --model qwen3-32b --rate 5/second"


@pytest.mark.parametrize("limit", ["under", "max", "at most", "for", "no more than"])
def test_a_limit_a_month_is_money_without_its_currency_too(limit: str) -> None:
    said = understand(f"chatbot with qwen3-8b for 200 users {limit} 2k a month")
    assert (said["--budget"], said["--users"]) == ("2k a month", "200")
    assert understand("qwen3-8b, at most 100 requests per second")["--rate"] == "100/second"


SIZES_IN_WORDS = (
    "mini",
    "nano",
    "tiny",
    "small",
    "medium",
    "large",
    "lite",
    "flash",
    "super",
    "ultra",
    "scout",
)


def test_a_family_and_a_size_in_words_are_a_model() -> None:
    """Every family that has a member of a size is read with it, as `mistral small` and `phi mini` are."""
    for id_ in models.all_ids():
        words = id_.replace(".", "-").split("-")
        for size in {*words} & {*SIZES_IN_WORDS}:
            family = words[0].rstrip("0123456789")
            if len(family) >= 3 and words[0] != "xlm":
                assert "--model" in understand(f"{family} {size} for 20 users"), id_


@pytest.mark.parametrize("work", sorted(MODEL_OF_WORK))
def test_an_error_without_a_model_names_one_that_does_the_work(cli: Cli, work: str) -> None:
    refused = cli(f"advisor recommend --workload {work} --rate 1")
    assert (refused.code, f"--model {MODEL_OF_WORK[work]}" in refused.err) == (2, True)
    found = models.find(MODEL_OF_WORK[work])
    assert found is not None
    expected = "diffusion" if work == "diffusion" else "speech" if work == "speech" else "encoder"
    assert found.vision is not None if work == "vision" else found.workload == expected


def test_families_of_models_that_make_no_text_are_read_by_one_word() -> None:
    for text, model in (("embed 1M documents with bge", "bge"), ("embed 1M texts, minilm", "minilm")):
        said = understand(text)
        assert (said["--workload"], said["--model"]) == ("embed", model)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{0} rpm", "{0} requests per minute"),
        ("{0} RPS", "{0} requests per second"),
        ("{0} QPS", "{0} requests/s"),
        ("{0} req/min", "{0} requests per minute"),
        ("{0} RPD", "{0} requests per day"),
        ("{0} TPM", "{0} tokens per minute"),
        ("{0} tpd", "{0} tokens a day"),
    ],
)
@pytest.mark.parametrize("amount", ["30k", "5,000", "250000"])
def test_short_words_of_rates_are_those_of_their_periods(short: str, long: str, amount: str) -> None:
    text = "llama 3.1 8b, 1000 in, 200 out, "
    assert understand(text + short.format(amount)) == understand(text + long.format(amount))
    assert "--rate" in understand(text + short.format(amount))


@pytest.mark.parametrize(
    "text",
    [
        "what do I need at home to run deepseek-r1 for under 10k",
        "deepseek-r1 at home, budget 10k",
        "a homelab for deepseek-r1 with $10,000",
        "deepseek-r1 at home for less than 10,000 dollars",
        "deepseek-r1 zu Hause unter 10k?",
    ],
)
def test_a_sum_for_a_machine_at_home_is_a_purchase(text: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        options_of_sentence(text)
    assert raised.value.fix == "advisor build --budget 10000 --model deepseek-r1"


@pytest.mark.parametrize(
    "text", ["llama 3.1 8b at home for 10 users under 10k context", "llama 3.1 8b at home for 1000 users"]
)
def test_a_number_that_is_no_sum_makes_no_purchase(text: str) -> None:
    assert understand(text)["--model"] == "llama-3.1-8b"
