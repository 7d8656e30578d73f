"""Speculative decoding in the start command of an engine: its options as this program's."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from advisor.catalog import models
from advisor.catalog.formats.stated_settings import speculation_method
from advisor.catalog.programs import kebab

_METHOD: Final = "method"
_HEAD: Final = "model"
_GUESSES: Final = "guesses"
_VERIFIED: Final = "verified"
_BRANCHES: Final = "branches"
_PARTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "method",
            "decoding-type",
            "spec-method",
            "spec-type",
            "speculative-algorithm",
            "speculative-method",
        ),
        _METHOD,
    ),
    **dict.fromkeys(
        (
            *("model", "speculative-model", "spec-model", "speculative-model-dir", "speculative-draft-model"),
            *(
                "speculative-draft-model-path",
                "model-draft",
                "md",
                "spec-draft-model",
                "hf-repo-draft",
                "hfd",
            ),
        ),
        _HEAD,
    ),
    **dict.fromkeys(
        (
            *("num-speculative-tokens", "spec-tokens", "speculative-num-steps", "max-draft-len"),
            *("num-nextn-predict-layers", "draft-max", "draft", "draft-n", "spec-draft-n-max"),
        ),
        _GUESSES,
    ),
    "speculative-num-draft-tokens": _VERIFIED,
    "speculative-eagle-topk": _BRANCHES,
}
"""Parts of speculative decoding by the engines' options, and by the keys of their configurations, without hyphens in
front. Source: vLLM, docs: speculative decoding (--speculative-config, --spec-method); SGLang, docs: server arguments;
TensorRT-LLM, docs: speculative_config; llama.cpp, tools/server/README.md."""
_ONLY_IN_A_CONFIG: Final = ("method", "decoding-type", "model")
_CONFIG: Final = "speculative-config"
_ALONE: Final = ("standalone", "draft_model", "draft_target", "draft-simple", "draft")
"""Methods whose draft is a model of its own."""


class PastedSpeculation:
    """Speculative decoding as a start command states it, option by option."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._typed: list[str] = []

    def take(self, typed: str, name: str, value: str) -> bool:
        """Take an option if it is one of speculative decoding; `name` is the engine's, without hyphens in front."""
        if name == _CONFIG or name.startswith(f"{_CONFIG}-"):
            key = name.removeprefix(_CONFIG).removeprefix("-")
            found = {key: value} if key else _config_of(value)
            self._parts |= {
                part: str(said) for word, said in found.items() if (part := _PARTS.get(kebab(word)))
            }
        elif name in _PARTS and name not in _ONLY_IN_A_CONFIG:
            self._parts.setdefault(_PARTS[name], value)
        else:
            return False
        self._typed.append(typed)
        return True

    def options(self) -> dict[str, str]:
        """Return the options of this program for what the command says; empty if it says nothing that is known."""
        method = self._method()
        if not method:
            return {}
        number, branches = (self._number(part) for part in (_GUESSES, _BRANCHES))
        if not number:
            number = self._number(_VERIFIED) - 1  # the token before the guesses is among them
        typed = {"--draft-tokens": number, "--draft-branches": branches if branches > 1 else 0}
        return {"--speculative": method, **{name: str(count) for name, count in typed.items() if count > 0}}

    def _number(self, part: str) -> int:
        stated = self._parts.get(part, "")
        return int(stated) if stated.isdigit() else 0

    def unread(self) -> list[str]:
        """Return the options that name a method which is not known."""
        return list(self._typed)

    def _method(self) -> str:
        stated = self._parts.get(_METHOD, "")
        head = self._parts.get(_HEAD, "")
        own = speculation_method(stated) or ("" if stated.lower() in _ALONE else speculation_method(head))
        if own == "eagle" and not head and speculation_method(stated):
            return "mtp"  # SGLang's EAGLE guesses with the modules of the model where no head is named
        if own or not head:
            return own or ""
        draft = models.name_in_path(head)
        return f"draft:{draft}" if models.find(draft) else ""


def _config_of(text: str) -> dict[str, Any]:
    """Return the settings of a configuration in JSON; empty if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return dict(_pairs_in(found))


def _pairs_in(found: object) -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        yield from ((str(key), value) for key, value in found.items() if isinstance(value, (str, int)))
