"""Adds list prices of tokens from a collected table to catalog/data/api_prices.csv, beside those that are there.

    python tools/import_api_prices.py api_prices_v2.csv

One row for a provider and a model of the catalog: providers under one name, resellers and free tiers left out, the
newest and then the lowest of several. What the file holds from elsewhere stays as it is.
"""

import csv
import sys
from pathlib import Path

from advisor.catalog.files import DATA_DIR
from advisor.catalog.models import by_hf_id

FILE = DATA_DIR / "api_prices.csv"
NAMES = {
    "together_ai": "together",
    "togetherai": "together",
    "fireworks_ai": "fireworks",
    "fireworks-ai": "fireworks",
    "bedrock": "aws-bedrock",
    "amazon-bedrock": "aws-bedrock",
    "aws": "aws-bedrock",
    "bedrock_converse": "aws-bedrock",
    "bedrock_mantle": "aws-bedrock",
    "azure_ai": "azure",
    "novita-ai": "novita",
    "vertex_ai": "google-vertex",
    "dashscope": "alibaba",
    "qwen_ai_platform": "alibaba",
    "qwencloud": "alibaba",
    "oci": "oracle",
    "zhipuai": "zai",
    "moonshot": "moonshotai",
    "friendliai": "friendli",
    "gmi": "gmicloud",
    "cloudflare-workers-ai": "cloudflare",
    "lambda_ai": "lambda",
    "gradient_ai": "digitalocean",
    "scx-ai": "scx",
}
RESELLERS = {
    "openrouter",
    "aihubmix",
    "vercel_ai_gateway",
    "kyma",
    "inferenceapis",
    "huggingface",
    "clf_ai_gateway",
    "opencode_go",
    "llamagate",
    "pinstripes",
    "aiand",
    "zerogpu",
    "prism",
    "darkbloom",
    "sail",
    "inference",
    "openinfer",
}
DOUBTFUL = {"openai", "wandb", "anyscale"}
"""Open weights sold by OpenAI, a fifth of what the market asks, a service that closed: not to be believed."""
SOURCES = {
    "litellm": "litellm-1.109.1",
    "models.dev": "models-dev-f3fc6922",
    "pydantic": "genai-prices-47df840a",
}


def provider_of(name: str) -> str:
    name = name.removeprefix("huggingface_")
    name = "google-vertex" if name.startswith("vertex_ai") else name
    return NAMES.get(name, name)


def main(table: Path) -> None:
    with FILE.open(encoding="utf-8", newline="") as file:
        lines = file.read().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    kept = [
        row
        for row in csv.DictReader(line for line in lines if not line.startswith("#"))
        if not row.get("source")
    ]
    best: dict[tuple[str, str], tuple[tuple[int, float], dict[str, str]]] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            model = by_hf_id(row["hf_id"])
            provider = provider_of(row["provider"])
            usd = float(row["usd_per_mtok_in"] or 0)
            out = float(row["usd_per_mtok_out"] or 0)
            if model is None or provider in RESELLERS | DOUBTFUL or not 0.01 < usd < 20 or out < 0.9 * usd:
                continue
            cached = row["usd_per_mtok_cached_in"]
            found = {
                "provider": provider,
                "model": model.id,
                "usd_per_million_input": f"{usd:g}",
                "usd_per_million_cached_input": f"{float(cached):g}"
                if cached and 0 < float(cached) < usd
                else "",
                "usd_per_million_output": f"{out:g}",
                "observed_on": row["observed_on"],
                "source": next(
                    name for start, name in SOURCES.items() if row["source_title"].startswith(start)
                ),
            }
            rank = (-int(row["observed_on"].replace("-", "")), usd + out)
            key = (provider, model.id)
            if key not in best or rank < best[key][0]:
                best[key] = rank, found
    known = {(row["provider"], row["model"]) for row in kept}
    rows = [*kept, *(row for key, (_, row) in best.items() if key not in known)]
    rows.sort(key=lambda row: (row["model"], row["usd_per_million_input"], row["provider"]))
    columns = [
        "provider",
        "model",
        "usd_per_million_input",
        "usd_per_million_cached_input",
        "usd_per_million_output",
        "observed_on",
        "url",
        "note",
        "source",
    ]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in comments)
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(kept)} rows before, {len(rows)} now of {len({row['provider'] for row in rows})} providers")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
