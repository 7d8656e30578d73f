"""Refresh the prices of this user's cache."""

from collections.abc import Sequence

from advisor.ask import options
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import cache_folder
from advisor.catalog.errors import AdvisorError, MissingHardwareError
from advisor.cli.notes import progress
from advisor.commands.catalog.options import RefreshInput
from advisor.commands.catalog.refresh_view import cleared_answer, refresh_answer
from advisor.refresh.fetch import open_fetcher
from advisor.refresh.price_cache import PriceCache
from advisor.refresh.price_lists import BY_DEFAULT, SOURCES, price_lists
from advisor.refresh.refresh import RefreshOutcome, failures, refresh
from advisor.render.answer import Answer


def run_refresh(wanted: RefreshInput, shared: SharedOptions) -> Answer:
    """Fetch, check and keep price lists, or clear what is kept.

    Raises: AdvisorError: --offline, an unknown source, or a cache that cannot be written. MissingHardwareError: no
        list could be fetched; the old prices stay.
    """
    cache = PriceCache(cache_folder())
    try:
        if wanted.clear:
            return cleared_answer(cache.clear(), cache.folder)
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
    return refresh_answer(outcomes, cache.folder, day, is_rehearsal=wanted.dry_run)


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
