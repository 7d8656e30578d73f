"""The laws share one driver, `tools/asking.py`, and the questions of `questions.py`: both become importable here."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools")]
