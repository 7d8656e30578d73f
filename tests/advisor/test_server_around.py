"""Start commands around a result say what its file leaves open, as pasted commands do."""

import pytest

from advisor.cli.server_around import conditions_around


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "```\nvllm serve gpt-oss-20b -tp 2 --max-num-seqs 64\n```\nvllm bench serve --model gpt-oss-20b\n",
            {"model": "gpt-oss-20b", "engine": "vllm", "tp": "2", "max_num_seqs": "64"},
        ),
        (
            "$ docker run -v /m/Qwen3-32B:/m vllm/vllm-openai:v0.10.2 --model /m --quantization fp8 \\\n"
            "  --kv-cache-dtype fp8\n",
            {
                "model": "qwen3-32b",
                "engine": "vllm",
                "engine_version": "0.10.2",
                "weight_dtype": "fp8",
                "kv_dtype": "fp8",
            },
        ),
        (
            "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --disable-cuda-graph\n",
            {"model": "Qwen/Qwen3-8B", "engine": "sglang", "tp": "2", "enforce_eager": "1"},
        ),
        ("vllm serve qwen3-8b\nvllm serve qwen3-14b\n", {"engine": "vllm"}),
        ("vllm serve no/such-model -tp 2\n", {}),
        ("Mean TTFT (ms): 12\n", {}),
    ],
)
def test_what_all_commands_state_alike_counts(text: str, said: dict[str, str]) -> None:
    assert conditions_around(text) == said
