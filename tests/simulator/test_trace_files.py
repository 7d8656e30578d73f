"""Recorded traffic in three layouts, and what a malformed row gets."""

import json
from pathlib import Path
from random import Random
from typing import Final

import pytest

from advisor.catalog.errors import InputFileError
from advisor.simulator.serving.cached_prefixes import hash_ids_of_cached
from advisor.simulator.serving.content import hashed_contents, mean_reused_tokens
from advisor.simulator.serving.trace_files import MOST_HASH_IDS, read_trace

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.4799600,3180,8\n"
)
MOONCAKE = (
    '{"timestamp": 1500, "input_length": 6755, "output_length": 500, "hash_ids": [0,1,2,3,4,5,6,7,8,9,10,11,12,13]}\n\n'
    '{"timestamp": 3500, "input_length": 7, "output_length": 1}\n'
)
OWN = "arrived_at_s,input_tokens,output_tokens,user\n10,100,5,a\n10,200,6,b\n12.5,300,7,c\n"


@pytest.mark.parametrize(
    ("name", "text", "times", "pairs"),
    [
        ("azure.csv", AZURE, (0.0, 0.5), ((4808, 10), (3180, 8))),
        ("mooncake.jsonl", MOONCAKE, (0.0, 2.0), ((6755, 500), (7, 1))),
        ("own.csv", OWN, (0.0, 0.0, 2.5), ((100, 5), (200, 6), (300, 7))),
    ],
)
def test_each_layout_gives_instants_from_zero_and_tokens(
    tmp_path: Path, name: str, text: str, times: tuple[float, ...], pairs: tuple[tuple[int, int], ...]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    trace = read_trace(path)
    assert trace.times_s == pytest.approx(times, abs=1e-6)
    assert trace.pairs == pairs
    assert trace.mean_input_tokens == pytest.approx(sum(p[0] for p in pairs) / len(pairs))
    assert trace.duration_s == pytest.approx(times[-1])


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\n", "holds no requests"),
        ("a.csv", "", "holds no requests"),
        ("a.csv", "time,in,out\n1,2,3\n", "no known columns"),
        (
            "a.csv",
            "arrived_at_s,input_tokens,output_tokens\n1,100,5\nsoon,100,5\n",
            "row 3: field arrived_at_s",
        ),
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\nnan,100,5\n", "row 2: field arrived_at_s"),
        (
            "a.csv",
            "arrived_at_s,input_tokens,output_tokens\n1,100,5\n0.5,100,5\n",
            "row 3: field arrived_at_s: earlier",
        ),
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\n1,0,5\n", "row 2: field input_tokens"),
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\n1,100,-5\n", "row 2: field output_tokens"),
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\n1,100,2.5\n", "row 2: field output_tokens"),
        ("a.csv", "arrived_at_s,input_tokens,output_tokens\n1,100\n", "row 2: field output_tokens: None"),
        ("a.jsonl", '{"timestamp": 1, "input_length": 2\n', "row 1 is not JSON"),
        ("a.jsonl", "[1, 2]\n", "row 1 is no JSON object"),
        (
            "a.jsonl",
            '{"timestamp": 1, "input_length": "x", "output_length": 3}\n',
            "row 1: field input_length",
        ),
    ],
)
def test_a_malformed_trace_is_refused_with_row_and_field(
    tmp_path: Path, name: str, text: str, what: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputFileError) as raised:
        read_trace(path)
    assert what in raised.value.what
    assert str(path) in raised.value.what


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        read_trace(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "num_requests", "mean_input"),
    [
        ("azure_2023_conv.csv", 19366, 1155),
        ("azure_2023_code.csv", 8819, 2048),
        ("mooncake_synthetic.jsonl", 3993, 15325),
    ],
)
def test_public_traces_have_their_published_size_and_mean(
    shared_data: Path, name: str, num_requests: int, mean_input: float
) -> None:
    trace = read_trace(shared_data / "traces" / name)
    assert len(trace.pairs) == num_requests
    assert trace.mean_input_tokens == pytest.approx(mean_input, rel=0.001)


AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,2162,5\n"
    "2024-05-10 00:00:00.017335+00:00,2399,6\n"
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n"
)
BAILIAN = (
    '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.25, "input_length": 33, '
    '"output_length": 132, "hash_ids": [1, 2, 3]}\n'
    '{"chat_id": 2, "parent_chat_id": 1, "timestamp": 77.25, "input_length": 40, '
    '"output_length": 80, "hash_ids": [1, 2, 9]}\n'
)
CONVERSATION = (
    '{"session_id": "s1", "timestamp": 0, "input_length": 300, "output_length": 40}\n'
    '{"session_id": "s2", "timestamp": 500, "input_length": 10, "output_length": 5}\n'
    '{"session_id": "s1", "delay": 2000, "input_length": 150, "output_length": 20}\n'
)
LONE_TURN = CONVERSATION + '{"timestamp": 2500, "input_length": 70, "output_length": 8}\n'
WHOLE_PROMPTS = (
    '{"session_id": "s1", "timestamp": 0, "input_length": 900, "output_length": 40, "hash_ids": [1, 2]}\n'
    '{"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]}\n'
)
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n0.25,396,109\n"
BASETEN = (
    "timestamp_start_unix_ms,input_tokens,output_tokens,request_canceled\n"
    "1700000000500,10,1,0\n1700000000000,20,2,0\n"
)
WEKA = json.dumps(
    {
        "id": "a",
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": [
            {"t": 0.0, "type": "n", "model": "m", "in": 100, "out": 5, "hash_ids": [1, 2]},
            {
                "t": 4.0,
                "type": "subagent",
                "agent_id": "x",
                "requests": [{"t": 1.0, "type": "s", "model": "m", "in": 64, "out": 7, "hash_ids": [9]}],
            },
            {"t": 8.5, "type": "s", "model": "m", "in": 128, "out": 6, "hash_ids": [1, 3]},
        ],
    },
    indent=1,
)
SPAN = {
    "startTimeUnixNano": "1700000000000000000",
    "attributes": [
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "120"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "30"}},
    ],
}
OTLP = json.dumps(
    {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {**SPAN, "startTimeUnixNano": "1700000002000000000"},
                            SPAN,
                            {"startTimeUnixNano": "1", "attributes": []},
                        ]
                    }
                ]
            }
        ]
    }
)
PRINTED_SPAN = json.dumps(
    {
        "name": "chat",
        "start_time": "2025-01-01T00:00:00.250000Z",
        "attributes": {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4},
    }
)
NO_TIMES = '{"input_length": 7, "output_length": 8}\n{"input_length": 9, "output_length": 10}\n'


@pytest.mark.parametrize(
    ("text", "times", "pairs"),
    [
        (AZURE_2024, (0.0, 0.007405), ((2162, 5), (2399, 6))),
        (BURSTGPT, (0.0, 113.0), ((472, 18), (417, 276))),
        (BAILIAN, (0.0, 16.0), ((33, 132), (40, 80))),
        (CONVERSATION, (0.0, 0.5, 2.0), ((300, 40), (10, 5), (490, 20))),
        (LONE_TURN, (0.0, 0.5, 2.0, 2.5), ((300, 40), (10, 5), (490, 20), (70, 8))),
        (WHOLE_PROMPTS, (0.0, 0.5), ((900, 40), (1100, 5))),
        (VIDUR, (0.0, 0.25), ((374, 44), (396, 109))),
        (BASETEN, (0.0, 0.5), ((20, 2), (10, 1))),
        (WEKA, (0.0, 5.0, 8.5), ((100, 5), (64, 7), (128, 6))),
        (OTLP, (0.0, 2.0), ((120, 30), (120, 30))),
        (PRINTED_SPAN, (0.0,), ((3, 4),)),
        (NO_TIMES, (0.0, 0.0), ((7, 8), (9, 10))),
    ],
)
@pytest.mark.parametrize("name", ["trace", "trace.csv", "trace.jsonl"])
def test_public_layouts_are_recognised_by_content_whatever_the_file_is_called(
    tmp_path: Path, name: str, text: str, times: tuple[float, ...], pairs: tuple[tuple[int, int], ...]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    trace = read_trace(path)
    assert trace.times_s == pytest.approx(times, abs=1e-6)
    assert trace.pairs == pairs
    assert trace.notes  # how a foreign layout was read is said
    assert trace.has_times == (text != NO_TIMES)


def test_times_of_a_bailian_trace_are_seconds_and_one_id_is_16_tokens(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(BAILIAN)
    trace = read_trace(path)
    assert (trace.block_tokens, trace.duration_s) == (16, 16.0)
    assert "seconds, one id for 16 tokens" in trace.notes[0]


def test_ids_that_an_excerpt_abridges_are_not_used_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(BAILIAN.replace("[1, 2, 3]", "[1, 3]"))
    trace = read_trace(path)
    assert trace.hash_ids is None
    assert "do not cover" in trace.notes[-1]


def test_a_row_may_say_how_many_tokens_an_id_covers(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [1, 2], "block_size": 64}\n'
    )
    assert read_trace(path).block_tokens == 64
    path.write_text('{"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [1, 2]}\n')
    with pytest.raises(InputFileError) as raised:
        read_trace(path)
    assert '"block_size": 64' in raised.value.fix


def test_turns_of_a_conversation_share_their_beginning(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(CONVERSATION)
    trace = read_trace(path)
    assert trace.hash_ids is not None
    first, other, second = trace.hash_ids
    assert first[:4] == second[:4]
    assert not set(other) & set(first)


def test_a_trace_without_lengths_names_them(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text('{"timestamp": 0.0, "hash_ids": [1], "chat_id": 1, "parent_chat_id": -1}\n')
    with pytest.raises(InputFileError) as raised:
        read_trace(path)
    assert "no input_length and no output_length" in raised.value.what


@pytest.mark.parametrize(
    "content", [WEKA[:200].encode(), OTLP[:90].encode(), b"\xff\xfe", b"PAR1 no", b"{}", b"[]"]
)
def test_a_trace_that_was_cut_or_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(InputFileError) as raised:
        read_trace(path)
    assert raised.value.fix


@pytest.mark.parametrize(
    "titles",
    [
        "time,prompt tokens,completion tokens,status",
        "arrived_at_s,input_tokens,output_tokens,http_status",
        "TIMESTAMP,ContextTokens,GeneratedTokens,response_code",
    ],
)
def test_a_request_that_failed_is_left_out_and_counted_wherever_it_stands(
    titles: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    times = (
        ("0", "1", "2", "3")
        if titles.startswith("arrived")
        else [f"2026-03-03T09:15:0{s}Z" for s in range(4)]
    )
    cells = (",,429", "100,,503", "100,20,200", "100,20,200")
    path.write_text("\n".join([titles, *(f"{time},{rest}" for time, rest in zip(times, cells, strict=True))]))
    trace = read_trace(path)
    assert trace.pairs == ((100, 20), (100, 20))
    assert any(note.startswith("2 requests without output tokens (failed)") for note in trace.notes)
    path.write_text(path.read_text().replace("100,,503", "100,,200"))
    with pytest.raises(
        InputFileError, match=r"row 3: field (?:of output tokens|output_tokens|GeneratedTokens)"
    ):
        read_trace(path)


def test_a_trace_in_parquet_is_read(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "trace.parquet"
    rows = {
        "timestamp_start_unix_ms": [1700000000000, 1700000000500],
        "prompt": ["a", "b"],
        "input_tokens": [20, 10],
        "output_tokens": [2, 1],
    }
    pandas.DataFrame(rows).to_parquet(path)
    trace = read_trace(path)
    assert (trace.times_s, trace.pairs) == ((0.0, 0.5), ((20, 2), (10, 1)))


@pytest.mark.parametrize("column", ["arrived_at", "ts", "startTime", "delay_s"])
def test_times_in_an_unknown_unit_are_named_and_not_left_out(tmp_path: Path, column: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(f"{column},input_tokens,output_tokens\n0,100,10\n1000,200,20\n")
    with pytest.raises(InputFileError) as raised:
        read_trace(file)
    assert column in raised.value.what


@pytest.mark.parametrize(
    "row",
    [
        '{{"t_s": {t}, "input_tokens": 1000, "cached_tokens": {c}, "output_tokens": 10}}',
        '{{"time": "2025-01-01T00:00:0{t}Z", "usage": {{"prompt_tokens": 1000, "completion_tokens": 10, '
        '"prompt_tokens_details": {{"cached_tokens": {c}}}}}}}',
        '{{"at_s": {t}, "prompt_tokens": 1000, "prompt_cache_hit_tokens": {c}, "completion_tokens": 10}}',
        '{{"arrived_at_s": {t}, "input_tokens": 1000, "output_tokens": 10, "cached_tokens": {c}}}',
    ],
)
def test_cached_tokens_without_ids_are_said(row: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(row.format(t=t, c=c) for t, c in enumerate((0, 800))), encoding="utf-8")
    trace = read_trace(path)
    assert trace.pairs == ((1000, 10), (1000, 10))
    assert "40% of its prompt tokens" in trace.notes[-1]
    assert trace.hash_ids is not None
    first, second = trace.hash_ids
    shared = [one == other for one, other in zip(first, second, strict=True)]
    assert sum(shared) * trace.block_tokens == 800
    assert all(shared[: sum(shared)])


@pytest.mark.parametrize("unit_tokens", [1, 16, 128])
@pytest.mark.parametrize("common_tokens", [0, 1024])
def test_prompts_share_what_a_cache_held_of_them(unit_tokens: int, common_tokens: int) -> None:
    """Conversations over a common system prompt, each held as far as the turn before it sent, in the cache's units."""
    random = Random(unit_tokens)
    sent: dict[int, int] = {}
    inputs = []
    cached = []
    for _ in range(1000):
        name = random.randrange(40)
        before = sent.get(name, 0) if sent.get(name, 0) < 20_000 else 0
        inputs.append((before or common_tokens) + random.randrange(50, 500))
        cached.append((before or (common_tokens if sent else 0)) // unit_tokens * unit_tokens)
        sent[name] = inputs[-1]
    known = hash_ids_of_cached(inputs, cached, MOST_HASH_IDS)
    assert known is not None
    block_tokens, ids = known
    reused = mean_reused_tokens(hashed_contents(ids, inputs, block_tokens))
    held = sum(cached) / len(cached)
    assert held - 2 * block_tokens <= reused <= held


def test_nothing_is_shared_where_no_cache_held_anything_or_ids_are_too_many() -> None:
    assert hash_ids_of_cached([1000, 1000], [0, 0], MOST_HASH_IDS) is None
    assert hash_ids_of_cached([1000, 1000], [0, 800], 1) is None
    known = hash_ids_of_cached([1000, 1000], [800, 0], MOST_HASH_IDS)
    assert known is not None
    assert not set(known[1][0]) & set(known[1][1])  # the first prompt was cached before the recording began


_TITLES: Final = [
    ("arrival (min)", "input tokens", "output tokens"),
    ("Ankunft (min)", "Eingabe-Token", "Ausgabe-Token"),
    ("Zeit [Minuten]", "Prompt-Länge", "Antwort-Token"),
    ("arrivée (min)", "jetons entrée", "jetons sortie"),
    ("llegada (minutos)", "tokens de entrada", "tokens de salida"),
    ("chegada (min)", "tokens de entrada", "tokens de saída"),
    ("arrivo (minuti)", "token ingresso", "token uscita"),
    ("aankomst (min)", "invoer tokens", "uitvoer tokens"),
    ("到达时间 (min)", "输入 token", "输出 token"),
    ("到着時刻 (min)", "入力トークン", "出力トークン"),
    ("время (min)", "вход токены", "выход токены"),
]


@pytest.mark.parametrize("titles", _TITLES, ids=[titles[0] for titles in _TITLES])
@pytest.mark.parametrize("form", ["english", "decimal commas", "quoted", "tabs"])
def test_titles_and_numbers_of_any_language_are_one_trace(
    tmp_path: Path, titles: tuple[str, ...], form: str
) -> None:
    rows = [(0.0, 1200, 150), (0.5, 800, 90), (2.25, 2050, 1300)]
    divider = {"decimal commas": ";", "tabs": "\t"}.get(form, ",")

    def cell(value: float) -> str:
        if form == "english":
            return str(value)
        words = f"{value:,}".replace(",", " ").replace(".", ",")  # 1 200 and 0,5
        words = words.replace(" ", "." if form != "quoted" else "")
        return f'"{words}"' if form == "quoted" else words

    file = tmp_path / "trace.csv"
    file.write_text("\n".join([divider.join(titles), *(divider.join(map(cell, row)) for row in rows)]))
    trace = read_trace(file)
    assert trace.times_s == (0.0, 30.0, 135.0)
    assert trace.pairs == tuple(row[1:] for row in rows)
    assert not any("not read" in note for note in trace.notes)


@pytest.mark.parametrize("title", ["uhr_foo", "x", "cuando", "Total tokens", "ttft_ms", "größe"])
@pytest.mark.parametrize("value", ["0.5", "17", '"0,5"', "08:00:30", "2025-03-01 08:00:30"])
@pytest.mark.parametrize(
    "columns",
    [
        "prompt_tokens,completion_tokens",
        "arrived_at_s,input_tokens,output_tokens",
        "timestamp_ms,prompt_tokens,completion_tokens",
        "input_length,output_length",
    ],
)
def test_a_column_of_numbers_or_instants_is_read_or_named(
    tmp_path: Path, title: str, value: str, columns: str
) -> None:
    file = tmp_path / "trace.csv"
    cells = ",".join("12" for _ in columns.split(","))
    file.write_text(f"{title},{columns}\n{value},{cells}\n{value},{cells}\n")
    refusal = ""
    try:
        trace = read_trace(file)
    except InputFileError as error:
        refusal = f"{error.what} {error.fix}"
    if refusal:
        assert title in refusal
        assert "arrived_at_s" in refusal
        return
    assert any("not read" in note and title in note for note in trace.notes)
    assert trace.has_times or any("arrived_at_s" in note for note in trace.notes)


def test_points_stand_between_thousands_where_a_comma_stands_before_decimals(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("arrived_at_min;input_tokens;output_tokens\n0,0;1.200;150\n0,5;800;90\n2,25;2.050;300\n")
    found = read_trace(file)
    assert (list(found.times_s), list(found.pairs)) == (
        [0.0, 30.0, 135.0],
        [(1200, 150), (800, 90), (2050, 300)],
    )


@pytest.mark.parametrize(
    ("title", "cells", "said"),
    [
        ("wann (min)", ("0.5", "1.0"), "may hold times"),
        ("wann", ("2025-03-01 08:00:00", "2025-03-01 08:00:03"), "may hold times"),
        ("uhrzeit", ("3.5", "4.0"), "whose unit is not known"),
        ("latency_ms", ("3.5", "4.0"), "not read: latency_ms"),
    ],
)
def test_a_column_of_an_unknown_title_is_refused_or_named(
    tmp_path: Path, title: str, cells: tuple[str, str], said: str
) -> None:
    file = tmp_path / "trace.csv"
    rows = "".join(f"{cell},100,20\n" for cell in cells)
    file.write_text(f"{title},prompt_tokens,completion_tokens\n{rows}")
    if said.startswith("not read"):
        assert any(said in note for note in read_trace(file).notes)
        return
    with pytest.raises(InputFileError, match=said):
        read_trace(file)
