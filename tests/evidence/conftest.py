"""Tests of published runs share the rows of `published_rows.py`, which becomes importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
