"""All rules, and a machine judged by them."""

from advisor.workstation.assembly import Assembly, Check, Setting
from advisor.workstation.rules import Rule
from advisor.workstation.rules_fit import ECC_REQUIRED, FIT_RULES, ecc
from advisor.workstation.rules_links import LINK_RULES
from advisor.workstation.rules_power import POWER_RULES


def rules_for(setting: Setting) -> tuple[Rule, ...]:
    """The rules under a setting: error correction is advice unless it is asked for."""
    return (*FIT_RULES, ECC_REQUIRED if setting.needs_ecc else ecc, *LINK_RULES, *POWER_RULES)


def judge(machine: Assembly, setting: Setting) -> tuple[Check, ...]:
    """Every rule that concerns the machine, in order; hard ones that fail first."""
    checks = [check for rule in rules_for(setting) if (check := rule.check(machine, setting)) is not None]
    return tuple(sorted(checks, key=worst_first))


def worst_first(check: Check) -> tuple[bool, bool, bool]:
    """Place in an account: what is broken, then what is unknown, advice, and what is kept."""
    return check.passed, check.verdict != "broken", check.severity != "hard"


def violations(machine: Assembly, setting: Setting) -> tuple[Check, ...]:
    """Hard rules that a machine breaks."""
    return tuple(check for check in judge(machine, setting) if not check.passed and check.severity == "hard")
