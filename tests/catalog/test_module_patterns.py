"""Patterns of a checkpoint's modules: the quick comparison says what a plain one says."""

import fnmatch
import itertools
import random
import re

from advisor.catalog.hf.modules import FUSED, PREFIXES, canonical
from advisor.catalog.hf.quantization import _compile, _matching

WORDS = (
    "self_attn",
    "mlp",
    "experts",
    "q_proj",
    "down_proj",
    "lm_head",
    "layers",
    "model",
    "language_model",
    "0",
    "12",
)
PIECES = (*WORDS, "*", ".*", r"\.", ".", r"\d+", "(gate|up)_proj", "a?", "|", "^", "?", "[0-5]")
NAMES = (
    *(
        f"layers.{n}.{owner}.{name}"
        for n, owner, name in itertools.product((0, 12), WORDS[:3], ("q_proj", "up_proj", "0.down_proj"))
    ),
    "lm_head",
    "embed_tokens",
    "mlp.gate_proj",
)


def plain(pattern: str, name: str) -> bool:
    """Every form of a pattern is compared with a name behind every prefix."""
    last = name.rpartition(".")[2]
    is_expression = pattern.startswith("re:")
    shown = canonical(pattern)
    if not is_expression and not any(sign in pattern for sign in "*?["):
        return f".{shown}." in f".{name}."
    if last in FUSED and last not in pattern:
        return False
    if is_expression:
        found = _compile(pattern[3:])
        return found is not None and any(found.match(prefix + name) for prefix in PREFIXES)
    forms = (shown, f"*.{shown}", f"{shown}.*", f"*.{shown}.*")
    return any(re.match(fnmatch.translate(form), name) for form in forms)


def test_patterns_match_as_each_form_behind_each_prefix_does() -> None:
    draw = random.Random(5)
    num_matches = 0
    for number in range(3000):
        body = "".join(draw.choices(PIECES, k=draw.randint(1, 4)))
        start = ("re:", "re:.*", "re:.*\\.", "")[number % 4]
        pattern = start + body
        matches = _matching([pattern])
        for name in NAMES:
            expected = plain(pattern, name)
            num_matches += expected
            assert matches(name) == expected, (pattern, name)
    assert num_matches > 1000
