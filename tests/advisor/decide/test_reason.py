"""Reasons: a closed list of codes, which the page lists, and the form that documents give them."""

import re
from pathlib import Path

from advisor.decide import reason
from advisor.decide.decision import Rejected
from advisor.decide.option import UnknownCost
from advisor.decide.reason import (
    CostsMore,
    DoesNotFit,
    MissesObjectives,
    NoKernels,
    NotTried,
    OverBudget,
    PriceNotStated,
    Reason,
    SlowAlone,
    SlowByDatasheet,
    StatedReason,
    TooLate,
    keep_furthest,
    name_accelerators,
    reason_codes,
)
from advisor.render.document import to_json

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_every_reason_has_a_code_of_its_own() -> None:
    own = (kind for kind in vars(reason).values() if isinstance(kind, type) and issubclass(kind, Reason))
    kinds = set(own) - {Reason, StatedReason, TooLate}
    assert len(reason_codes()) == len(kinds)
    assert Reason.code not in reason_codes()


def test_an_accelerator_has_the_reason_of_what_came_furthest_and_missed_by_least() -> None:
    found = [
        DoesNotFit("too large"),
        SlowByDatasheet("p99 TPOT", 0.02, 0.012),
        SlowByDatasheet("p99 TPOT", 0.015, 0.012),
        SlowAlone("p99 TPOT", 0.014, 0.012),
        SlowAlone("p99 TPOT", 0.013, 0.012),
        MissesObjectives("p99 TPOT 12 ms"),
        OverBudget(),
        NotTried(),
    ]
    for last in range(1, len(found) + 1):
        for order in (found[:last], found[:last][::-1]):
            kept: dict[str, Reason] = {}
            for each in order:
                keep_furthest(kept, "l4", each)
            assert kept == {"l4": found[last - 1]}


def test_a_reason_names_its_accelerators_while_they_are_few() -> None:
    told = name_accelerators(NoKernels("TensorRT-LLM", ("fp8",)), ["a100-sxm-80gb"])
    assert told == "a100-sxm-80gb: TensorRT-LLM has no kernels for fp8 on it"
    assert name_accelerators(OverBudget(), ["a", "b", "c"]).startswith("a, b, c: ")
    assert name_accelerators(OverBudget(), ["a", "b", "c", "d"]).endswith("(4 accelerators)")


def test_the_page_lists_every_code_and_no_other() -> None:
    _, _, after = PAGE.read_text(encoding="utf-8").partition("### Reason codes\n")
    section, _, _ = after.partition("\n## ")
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert tuple(listed) == reason_codes()


def test_documents_have_code_and_text() -> None:
    dearer = CostsMore(0.5, 0.25, 3, is_bound=True)
    told = {"code": "costs_more", "text": "at least $0.5 per million tokens, against $0.25 for option 3"}
    assert to_json(dearer) == told
    assert to_json(Rejected("l4", dearer)) == {"accelerator": "l4", **told}
    assert to_json(UnknownCost("storage", PriceNotStated("aws"))) == {
        "what": "storage",
        "reason": {"code": "price_not_stated", "text": "no price of aws is known"},
    }
