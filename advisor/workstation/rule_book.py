"""All rules, and the judgement of a machine by them."""

from advisor.workstation.assembly import Assembly, Check, Setting
from advisor.workstation.planned_cards import PLANNING_RULES
from advisor.workstation.rules import Rule
from advisor.workstation.rules_fit import ECC_REQUIRED, FIT_RULES, ecc
from advisor.workstation.rules_links import LINK_RULES
from advisor.workstation.rules_power import POWER_RULES


def rules_for(setting: Setting) -> tuple[Rule, ...]:
    """Return the rules under a setting: error correction is advice unless the setting requires it."""
    return (*FIT_RULES, ECC_REQUIRED if setting.needs_ecc else ecc, *LINK_RULES, *POWER_RULES)


def planning_rules(setting: Setting) -> tuple[Rule, ...]:
    """Return the rules that a machine of the planner keeps: all rules, and those on the conditions of its speed."""
    return (*rules_for(setting), *PLANNING_RULES)


def judge(machine: Assembly, setting: Setting) -> tuple[Check, ...]:
    """Return the check of every rule that concerns the machine, the worst first."""
    checks = [check for rule in rules_for(setting) if (check := rule.check(machine, setting)) is not None]
    return tuple(sorted(checks, key=worst_first))


def worst_first(check: Check) -> tuple[bool, bool, bool]:
    """Sort key of a check: broken rules first, then unknown ones, advice, and passed ones."""
    return check.passed, check.verdict != "broken", check.severity != "hard"


def violations(machine: Assembly, setting: Setting) -> tuple[Check, ...]:
    """Return the failed checks of hard rules."""
    return tuple(check for check in judge(machine, setting) if not check.passed and check.severity == "hard")
