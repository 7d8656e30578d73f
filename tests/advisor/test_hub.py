"""A model that the catalog does not have: fetched by its id from a server, kept, refused with what to do."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

Cli = Callable[[str], Any]
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 24,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 8192,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 8192,
    "auto_map": {"AutoConfig": "evil.EvilConfig"},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
FILES: dict[str, bytes] = {
    "/lab/Novel-2B/config.json": json.dumps(CONFIG).encode(),
    "/lab/Novel-2B/evil.py": b"raise SystemExit('executed')",
    "/lab/Huge-2B/config.json": b" " * 40_000_000,
    "/lab/Broken-2B/config.json": b"{",
    "/lab/Strange-2B/config.json": json.dumps({**CONFIG, "model_type": "never_seen"}).encode(),
    "/lab/Empty-2B/README.md": b"",
}


class Hub(BaseHTTPRequestHandler):
    """A hub that holds `FILES` and notes what it is asked for."""

    asked: list[str] = []  # noqa: RUF012
    status: int | None = None

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0].replace("/resolve/main", "")
        self.asked.append(f"{self.command} {path}")
        repository = "/".join(path.split("/")[:3])
        content = FILES.get(path)
        if self.status or content is None:
            is_there = any(name.startswith(f"{repository}/") for name in FILES)
            self.send_response(self.status or 404)
            self.send_header("X-Error-Code", "EntryNotFound" if is_there else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", '"0123456789abcdef0123456789abcdef01234567"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    Hub.asked = []
    Hub.status = None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    yield Hub
    server.shutdown()
    server.server_close()


def memory(cli: Cli, name: str, more: str = "") -> Any:
    return cli(f"advisor memory --model {name} --gpu h100-sxm --context 4096 --json {more}")


def test_a_model_is_fetched_by_its_id_and_kept(hub: type[Hub], cli: Cli, tmp_path: Path) -> None:
    first = memory(cli, "lab/Novel-2B")
    assert first.code == 0, first.err
    assert "lab/Novel-2B' is not in the catalog" in first.err
    document = json.loads(first.out)
    assert document["inputs"]["weight_dtype"] == "fp8"
    assert document["inputs"]["checkpoint"] == "lab/Novel-2B"
    parameters = 24 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192)
    assert document["model"]["weight_bytes"] == pytest.approx(parameters + 2 * 2 * 32000 * 2048, rel=0.001)
    assert not any("evil" in path or ("safetensors" in path and "index" not in path) for path in hub.asked)
    kept = sorted(file.name for file in (tmp_path / "cache" / "models" / "lab--Novel-2B").iterdir())
    assert kept == ["config.json"]
    hub.asked.clear()
    again = memory(cli, "lab/Novel-2B", "--offline")
    assert json.loads(again.out)["model"] == document["model"]
    assert hub.asked == []


@pytest.mark.parametrize(("size", "is_told"), [(1.72e9, False), (16e9, True), (0.3e9, True), ("many", False)])
def test_a_config_that_contradicts_its_index_is_told(
    cli: Cli, tmp_path: Path, size: object, is_told: bool
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    index = {"metadata": {"total_size": size}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    run = memory(cli, str(tmp_path))
    assert run.code == 0, run.err
    assert ("one of them is not of this checkpoint" in run.err) is is_told


def test_a_fetched_model_is_recommended_under_its_own_name(hub: type[Hub], cli: Cli) -> None:
    launch = cli(
        "advisor recommend --model lab/Novel-2B --gpu l4 --rate 1 --engine vllm --fast --top 1 --json"
    ).document()["options"][0]["launch"]
    assert "lab/Novel-2B" in launch["command"]
    assert launch["simulate_args"][:2] == ["--model", "lab/Novel-2B"]


def test_without_the_network_it_says_what_to_download(hub: type[Hub], cli: Cli) -> None:
    run = memory(cli, "lab/Novel-2B", "--offline")
    assert run.code == 2
    assert "download config.json of huggingface.co/lab/Novel-2B" in run.err
    assert hub.asked == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lab/Nowhere-2B", "neither the catalog nor the hub has it"),
        ("lab/Empty-2B", "has no config.json"),
        ("lab/Huge-2B", "40 MB"),
        ("lab/Broken-2B", "is not JSON"),
        ("lab/Strange-2B", "never_seen"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(
    hub: type[Hub], cli: Cli, name: str, said: str
) -> None:
    run = memory(cli, name)
    assert run.code == 2
    assert said in run.err
    assert "To fix:" in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize("status", [401, 500, 302])
def test_a_hub_that_fails_is_told_without_a_traceback(hub: type[Hub], cli: Cli, status: int) -> None:
    hub.status = status
    run = memory(cli, "lab/Novel-2B")
    assert run.code == 2
    assert "Traceback" not in run.err
    assert "To fix:" in run.err
