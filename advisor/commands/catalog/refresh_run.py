"""Refresh the prices of this user's cache."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.ask import options
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import cache_folder
from advisor.catalog.errors import AdvisorError, MissingHardwareError
from advisor.cli.notes import progress
from advisor.commands.catalog.options import RefreshInput
from advisor.commands.catalog.refresh_view import cleared_answer, refresh_answer, snapshot_answer
from advisor.refresh.fetch import open_fetcher
from advisor.refresh.price_cache import PriceCache
from advisor.refresh.price_lists import BY_DEFAULT, SOURCES, price_lists
from advisor.refresh.refresh import RefreshOutcome, failures, refresh
from advisor.refresh.snapshot import is_address, load_snapshot, snapshot_text
from advisor.render.answer import Answer
from advisor.render.atomic import write_text


def run_refresh(wanted: RefreshInput, shared: SharedOptions) -> Answer:
    """Fetch, check and keep price lists, or clear what is kept.

    Raises: AdvisorError: --offline, an unknown source, or a cache that cannot be written. MissingHardwareError: no
        list could be fetched; the old prices stay.
    """
    cache = PriceCache(cache_folder())
    try:
        if wanted.clear:
            return cleared_answer(cache.clear(), cache.folder)
        if wanted.snapshot is not None:
            return _with_snapshot(wanted, _take_snapshot(wanted, cache, shared), cache)
        if wanted.digest is not None:
            raise AdvisorError("--digest is that of a snapshot", fix="--snapshot FILE --digest SHA256")
        if wanted.write_snapshot is not None and shared.offline:
            return _with_snapshot(wanted, None, cache)
        if shared.offline:
            raise AdvisorError(
                "a refresh needs the network", why="--offline forbids it", fix="leave --offline out"
            )
        day = options.today()
        if shared.as_of != day:
            raise AdvisorError(
                f"cannot fetch the prices of {shared.as_of}",
                why="sellers publish what they ask today",
                fix="leave --as-of out",
            )
        lists = price_lists(_names(wanted.source) or BY_DEFAULT, _names(wanted.region))
        with progress(quiet=shared.quiet) as line, open_fetcher() as fetcher:
            outcomes = refresh(
                lists,
                cache,
                fetcher,
                day,
                is_rehearsal=wanted.dry_run,
                accept_changes=wanted.accept,
                progress=line,
            )
    except OSError as error:
        raise AdvisorError(
            f"cannot write {cache.folder}",
            why=error.strerror or str(error),
            fix="name another folder in ADVISOR_CACHE_DIR",
        ) from error
    if all(outcome.status == "failed" for outcome in outcomes):
        raise _nothing_came(outcomes)
    return _with_snapshot(
        wanted, refresh_answer(outcomes, cache.folder, day, is_rehearsal=wanted.dry_run), cache
    )


def _take_snapshot(wanted: RefreshInput, cache: PriceCache, shared: SharedOptions) -> Answer:
    """Replace the kept prices by those of a snapshot.

    Raises: AdvisorError: a list is named too, or an address under --offline. InputFileError: it is no snapshot.
    """
    assert wanted.snapshot is not None
    for name, given in (
        ("--source", wanted.source),
        ("--region", wanted.region),
        ("--accept", wanted.accept),
    ):
        if given:
            raise AdvisorError(f"--snapshot and {name} exclude each other", fix=f"drop {name}")
    if shared.offline and is_address(wanted.snapshot):
        raise AdvisorError(
            "a snapshot at an address needs the network", why="--offline forbids it", fix="name a file"
        )
    lists = load_snapshot(wanted.snapshot, wanted.digest)
    if not wanted.dry_run:
        cache.replace_all(lists)
    return snapshot_answer(wanted.snapshot, lists, cache.folder, is_rehearsal=wanted.dry_run)


def _with_snapshot(wanted: RefreshInput, answer: Answer | None, cache: PriceCache) -> Answer:
    """Return the answer; write the kept prices as a snapshot if asked."""
    if wanted.write_snapshot is None:
        assert answer is not None
        return answer
    text = snapshot_text(cache, options.today())
    write_text(wanted.write_snapshot, text)
    note = f"wrote {wanted.write_snapshot}"
    if answer is None:
        return snapshot_answer(
            str(wanted.write_snapshot), load_snapshot(str(wanted.write_snapshot), None), cache.folder
        )
    return replace(answer, notes=(*answer.notes, note))


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in (text or "").split(","))))
    return tuple(SOURCES) if names == ("all",) else names


def _nothing_came(outcomes: Sequence[RefreshOutcome]) -> MissingHardwareError:
    return MissingHardwareError(
        f"no price list could be refreshed ({len(outcomes)} tried)",
        why="; ".join(f"{name}: {reason}" for name, reason in failures(outcomes)),
        fix="check the network or the proxy (HTTPS_PROXY), or give your own prices with --price-file",
        hint="the prices that were there are unchanged",
    )
