"""`advisor config show`: which defaults are set, and by whom."""

from dataclasses import dataclass

from advisor.cli.command import command


@command("config show", is_local=True)
@dataclass(frozen=True, slots=True)
class ShowConfigInput:
    """Show every default that is set, and where it comes from."""
