"""Rules for complete systems, whose power and noise are stated as a whole, with the limits of machines built from
parts."""

from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.schema.part import System
from advisor.workstation.assembly import Cards, Check, Setting
from advisor.workstation.rules import Finding, at_most, holds, match_rule


@match_rule("circuit", "wall circuit", "W")
def circuit(system: System, setting: Setting) -> Finding:
    """Compare the power at the wall with the limit of the circuit for hours."""
    limit = setting.circuit.continuous_w
    why = f"{system.power_w:.0f} W at the wall, {setting.circuit} carries {limit:.0f} W for hours"
    return at_most(system.power_w, limit, why, "another circuit (--circuit)")


@match_rule("room-heat", "heat into the room", "W", "advice")
def room_heat(system: System, setting: Setting) -> Finding:
    """Judge the heat in the room, which equals the power."""
    limit = setting.room_cooling_w
    why = f"{system.power_w:.0f} W of heat into a room that loses {limit:.0f} W"
    return at_most(system.power_w, limit, why, "cooling for the room (--room-cooling)")


@match_rule("noise", "noise", "dB(A)", "advice")
def noise(system: System, setting: Setting) -> Finding | None:
    """Judge the stated or typical noise; unknown if no source states it, None if no limit is stated either."""
    wanted = f"wanted at most {setting.max_noise_db:.0f} dB(A) at one metre"
    if system.noise_db is None:
        why = f"no source states its noise, {wanted}"
        unknown = Finding(0.0, setting.max_noise_db, False, why, "a measured review of this machine", True)
        return unknown if setting.needs_quiet else None
    why = f"{system.noise_db:.0f} dB(A) at one metre, wanted at most {setting.max_noise_db:.0f}"
    return at_most(system.noise_db, setting.max_noise_db, why, "another room")


@match_rule("ecc", "error correction", "of 1", "advice")
def ecc(system: System, setting: Setting) -> Finding:
    """Judge whether the memory corrects errors."""
    why = "memory corrects errors" if system.ecc else "no source says that its memory corrects errors"
    return holds(system.ecc, why, "a machine with ECC memory")


ECC_REQUIRED: Final = replace(ecc, severity="hard")


def takes_cards(system: System) -> bool:
    """Whether graphics cards work next to a complete machine.

    Source: Apple, Use an external graphics processor with your Mac: it needs a Mac with an Intel processor.
    """
    return accelerators.by_id(system.accelerator).vendor != "apple"


@match_rule("external-card", "cards next to the machine", "of 1")
def external_card(system: System, cards: Cards, setting: Setting) -> Finding | None:
    """Judge graphics cards next to a complete machine."""
    able = takes_cards(system)
    why = f"{system.name} {'works' if able else 'does not work'} with graphics cards of other makers"
    return holds(able, why, "a PC for the card, or the machine alone")


def judge_system(system: System, setting: Setting) -> tuple[Check, ...]:
    """Return the check of every rule that a system's record allows; failed hard ones come first."""
    rules = (circuit, room_heat, noise, ECC_REQUIRED if setting.needs_ecc else ecc)
    checks = [check for rule in rules if (check := rule.check_parts((system,), setting)) is not None]
    return tuple(sorted(checks, key=lambda check: (check.passed, check.severity != "hard")))
