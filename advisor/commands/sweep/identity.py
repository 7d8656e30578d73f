"""Identity of a sweep, so that its rows compare: command, program, catalog, refreshed prices, calibration."""

import shlex
from pathlib import Path

from advisor.ask.options import SharedOptions
from advisor.ask.own_data import FOLDER_VARIABLE, cache_folder
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import check_link, content_hash
from advisor.cli.notes import note, warn
from advisor.commands.sweep.options import SweepInput
from advisor.commands.sweep.targets import installed_versions
from advisor.refresh.price_cache import PriceCache
from advisor.sweep.journal import UNKNOWN, Header, JournalContent, read_journal


def header_of(command: str, shared: SharedOptions) -> Header:
    """Return the header of a sweep that begins now."""
    tool, catalog, prices = installed_versions()
    file = shared.calibration
    hashed = "" if file is None else content_hash(file)[:12]
    return Header(
        command, tool, catalog, shared.as_of.isoformat(), shared.seed, prices, hashed, str(file or "")
    )


def snapshot_folder(journal: Path) -> Path:
    """Return the folder next to the journal for the copy of the refreshed prices with which a sweep began."""
    return journal.with_name(journal.name + ".prices")


def keep_snapshot(journal: Path) -> None:
    """Copy the refreshed prices that count now, where there are any."""
    cache = PriceCache(cache_folder())
    if cache.is_filled:
        check_link(snapshot_folder(journal))
        cache.keep_copy(snapshot_folder(journal))


def open_journal(path: Path, asked: SweepInput, header: Header) -> tuple[Header, JournalContent]:
    """Return header and rows to continue from; a new header and no rows if the sweep starts again.

    Raises: AdvisorError: unfinished work is in the way, or was begun with something else.
    """
    found, kept = read_journal(path)
    if found is None and kept.damaged_lines:
        warn(f"{path} was cut off before its first line was complete: the sweep starts again")
    if found is None or (not asked.resume and (kept.complete or not kept.rows)):
        return header, JournalContent()
    if not asked.resume:
        raise AdvisorError(
            f"{path} holds {len(kept.rows)} finished points of an interrupted sweep",
            fix="--resume goes on from them",
            hint=f"remove {path.name} to start again",
        )
    _check_same(path, asked, found, header)
    if (found.seed, found.as_of) != (header.seed, header.as_of):
        note(f"seed {found.seed} and prices of {found.as_of}, as when the sweep began")
    if kept.damaged_lines:
        warn(f"{path}: line {', '.join(map(str, kept.damaged_lines))} is torn; that point is asked again")
    return found, kept


def _check_same(path: Path, asked: SweepInput, found: Header, header: Header) -> None:
    """Raises: AdvisorError: rows of both would not compare."""
    output = Path(str(path)[: -len(".journal")])
    other = output.with_name(f"{output.stem}-anew{output.suffix}")
    anew = f"start again: advisor sweep {shlex.quote(str(asked.file))} -o {shlex.quote(str(other))}"
    again = f"advisor sweep {shlex.quote(str(asked.file))} --resume -o {shlex.quote(str(output))}"
    calibration = f" --calibration {shlex.quote(found.calibration_file)}" if found.calibration_file else ""
    for name, was, now, fix in (
        ("command", found.command, header.command, anew),
        ("version of advisor", found.tool_version, header.tool_version, anew),
        ("catalog", found.catalog_version, header.catalog_version, anew),
        ("calibration", found.calibration, header.calibration, again + calibration),
        (
            "snapshot of refreshed prices",
            found.prices,
            header.prices,
            _pinned_command(path, found, again + calibration),
        ),
    ):
        if was == UNKNOWN:
            warn(f"{path} does not say with which {name} it was begun")
        elif was != now:
            raise AdvisorError(
                f"{path} was begun with another {name}",
                why=f"{was or 'none'} then, {now or 'none'} now: rows of both would not compare",
                fix=fix,
            )


def _pinned_command(path: Path, found: Header, again: str) -> str:
    """Return the command that goes on with the prices of the beginning."""
    folder = snapshot_folder(path)
    if found.prices and not folder.is_dir():
        return "start again without --resume and with another -o: those prices are gone"
    return f"{FOLDER_VARIABLE}={shlex.quote(str(folder))} {again}"
