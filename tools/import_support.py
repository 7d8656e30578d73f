"""Writes catalog/data/support: what engines serve, published checkpoints, context windows, from collected tables.

    python tools/import_support.py FOLDER

FOLDER holds engine_support.csv, checkpoints.csv and context_windows.csv as collected. Engines, architectures and
formats get the catalog's names; what the catalog has no model for is left out; equal rows are joined.
"""

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR
from advisor.catalog.models import by_hf_id, get

Row = dict[str, str]
ARCHITECTURES = {
    "ampere": "ampere ampere-geforce",
    "blackwell": "blackwell blackwell-ultra",
    "blackwell-consumer": "blackwell-geforce",
    "apple": "apple-m1 apple-m2 apple-m3 apple-m4 apple-m5",
    "xe": "xe2",
}
WHAT = {
    "fp8-tensor": "fp8",
    "awq-int4": "int4-awq",
    "gptq-int4": "int4-gptq",
    "w8a8-int8": "int8",
    "nf4-bitsandbytes": "nf4",
    "w8a8-int8 (MoE experts)": "int8-experts",
    "mxfp4 (in gguf)": "gguf-mxfp4",
    "nvfp4 (in gguf)": "gguf-nvfp4",
    "quark-mxfp4 checkpoint": "mxfp4-quark",
    "mlx-affine-int4": "int4-mlx",
    "mlx-affine-int8": "int8-mlx",
    "compressed-tensors fp8/int8": "compressed-tensors",
}
FORMATS = (
    (r"^draft model \((\w+)\)", r"draft-\1"),
    (r"^nf4", "nf4"),
    (r"^awq-int4", "int4-awq"),
    (r"^gptq-int4", "int4-gptq"),
    (r"^(awq|gptq)-int8", r"int8-\1"),
    (r"^mxfp8", "mxfp8"),
    (r"^mxfp4", "mxfp4"),
    (r"^nvfp4", "nvfp4"),
    (r"^fp8-block", "fp8-block"),
    (r"^fp8", "fp8"),
    (r"^(w8a8-int8|int8)", "int8"),
    (r"^int4", "int4"),
    (r"^int2/4/8", "int-mixed"),
    (r"^bf16", "bf16"),
    (r"^original", "original"),
)
NOTE_LENGTH = 160


def support_rows(rows: Iterable[Row]) -> list[Row]:
    """One row for each engine, version, thing, answer and source; of two answers that of a released version counts."""
    answers: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        what = WHAT.get(row["what"], row["what"].replace(" ", "_").lower())
        key = (row["engine"], row["architecture"], what)
        if key not in answers or "undated" in answers[key]["engine_version"]:
            answers[key] = row | {"what": what}
    joined: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (engine, architecture, what), row in answers.items():
        source = f"{row['source_title']}: {row['source_where']}".removesuffix(": ")
        key = (engine, row["engine_version"], what, row["support"], source, row["notes"][:NOTE_LENGTH])
        joined[key] += ARCHITECTURES.get(architecture, architecture).split()
    columns = ("engine", "version", "what", "support", "source", "note")
    return [
        dict(zip(columns, key, strict=True)) | {"architectures": " ".join(sorted(names))}
        for key, names in sorted(joined.items())
    ]


def checkpoint_rows(rows: Iterable[Row]) -> list[Row]:
    found = {}
    for row in rows:
        model = model_of(row["model_id"]) or model_of(row["hf_repo"])
        if not model:
            continue
        engines = {name.split(" (")[0] for name in row["engines"].split(" | ") if name}
        found[row["hf_repo"]] = {
            "repository": row["hf_repo"],
            "model": model,
            "format": format_of(row["format"]),
            "kind": row["kind"],
            "is_seen": "true" if row["seen"] == "literal" else "false",
            "engines": " ".join(sorted(engines)),
            "source": short_source(row["source"]),
        }
    return sorted(found.values(), key=lambda row: (row["model"], row["repository"]))


def window_rows(rows: Iterable[Row]) -> list[Row]:
    found = []
    for row in rows:
        config = number(row["max_position_embeddings"])
        advertised = number(row["advertised_context_tokens"])
        known = [tokens for tokens in (config, advertised) if tokens]
        if not model_of(row["model_id"]) or not known or "SUSPECT" in row["notes"]:
            continue
        rope = row["rope_scaling_needed"]
        native = config or advertised
        scaled = 0
        if yarn := re.match(r"yarn factor ([\d.]+) over (\d+)", rope):
            native = config or int(yarn[2])
            scaled = max(advertised, int(float(yarn[1]) * int(yarn[2])) if not advertised else 0)
        elif "CONFLICT" in row["notes"]:
            native = min(known)
        elif rope == "none":
            scaled = native
        conflict = re.search(r"CONFLICT:[^;]*", row["notes"])
        found.append(
            {
                "repository": row["model_id"],
                "native": str(native),
                "with_scaling": str(scaled or ""),
                "source": short_source(row["source"]),
                "note": conflict.group(0) if conflict else "",
            }
        )
    return found


@cache
def model_of(repository: str) -> str:
    """Id of the catalog's model of a repository; empty where it has none."""
    if not repository:
        return ""
    listed = by_hf_id(repository)
    if listed is not None:
        return listed.id
    try:
        return get(repository).record.id
    except AdvisorError:
        return ""


def format_of(name: str) -> str:
    return next((re.sub(f"{start}.*", to, name) for start, to in FORMATS if re.match(start, name)), name)


def short_source(text: str) -> str:
    """The first source, without the path inside its file."""
    return re.sub(r" \(name template.*| \(family-level.*", "", text.split(" ; ")[0]).replace(
        "models.csv: ", ""
    )[:110]


def number(text: str) -> int:
    return int(float(text)) if text else 0


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, columns: tuple[str, ...], rows: list[Row]) -> None:
    """The rows, and beside them their sources, once each and numbered."""
    sources = list(dict.fromkeys(row["source"] for row in rows))
    with (DATA_DIR / "support" / f"{name}_sources.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("source", "title"))
        writer.writerows(enumerate(sources))
    with (DATA_DIR / "support" / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, columns, lineterminator="\n")
        out.writeheader()
        out.writerows(row | {"source": str(sources.index(row["source"]))} for row in rows)
    print(f"{name}: {len(rows)} rows of {len(sources)} sources")


def main(folder: Path) -> None:
    (DATA_DIR / "support").mkdir(exist_ok=True)
    rows = support_rows(read(folder / "engine_support.csv"))
    write("engines", ("engine", "version", "what", "support", "architectures", "source", "note"), rows)
    columns = ("repository", "model", "format", "kind", "is_seen", "engines", "source")
    write("checkpoints", columns, checkpoint_rows(read(folder / "checkpoints.csv")))
    write(
        "windows",
        ("repository", "native", "with_scaling", "source", "note"),
        window_rows(read(folder / "context_windows.csv")),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
