"""Rewrites the Hugging Face ids in catalog/data/models/names.csv from the model records; keeps the aliases.

Run after adding a model: python tools/write_model_names.py
"""

import csv

from advisor.catalog.models import NAMES_FILE, all_models, hf_id_rows


def main() -> None:
    with NAMES_FILE.open(encoding="utf-8", newline="") as file:
        aliases = [tuple(row) for row in csv.reader(file) if row and row[2] == "alias"]
    with NAMES_FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "id", "kind"))
        writer.writerows([*aliases, *hf_id_rows(all_models())])


if __name__ == "__main__":
    main()
