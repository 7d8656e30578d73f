"""The answer on coverage: the catalog's knowledge and its gaps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.coverage import AcceleratorCoverage, Coverage, ProviderCoverage
from advisor.catalog.prices import STALE_AFTER_DAYS, age_days
from advisor.catalog.schema.price import Price
from advisor.commands.catalog.price_view import price_row
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import fields_of
from advisor.render.numbers import MISSING, term_words, usd, words_of

MAX_OLD_ROWS: Final = 12
"""Stale offers that the terminal shows; files and JSON have all."""
_NO_DAY: Final = "no date"


def coverage_answer(known: Coverage, inputs: Mapping[str, object]) -> Answer:
    """Return priced, supported, measured and dated entries by accelerator and provider, and those with little data."""
    offered = [row for row in known.accelerators if row.num_offers]
    blocks: list[Block] = [
        _accelerators(offered),
        Paragraph(
            f"plan = offers to plan with: dedicated, dated, of a kind that one can expect to pay; fresh = of those not "
            f"older than {STALE_AFTER_DAYS} days; engines = stated to run on the architecture; measured = operators "
            "measured on it; buy = a purchase price is known."
        ),
        _providers([row for row in known.providers if row.num_offers]),
    ]
    if known.unpriced:
        blocks.append(_unpriced_table(known.unpriced))
    if known.single_source:
        blocks.append(Paragraph(f"Prices of one seller only: {', '.join(known.single_source)}."))
    if known.stale:
        blocks += _stale(known)
    return Answer(
        result={
            "as_of": known.as_of.isoformat(),
            "accelerators": [
                fields_of(row) | {"is_single_source": row.is_single_source} for row in known.accelerators
            ],
            "providers": known.providers,
            "unpriced": [{"accelerator": name, "reason": reason} for name, reason in known.unpriced],
            "single_source": known.single_source,
            "stale": [price_row(price, known.as_of) for price in known.stale],
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="accelerators",
    )


def _accelerators(rows: Sequence[AcceleratorCoverage]) -> Table:
    return Table(
        columns("accelerator | offers> | sellers> | plan> | fresh> | newest | engines> | measured> | buy?"),
        tuple(
            (
                row.accelerator,
                f"{row.num_offers}",
                f"{len(row.sellers)}",
                f"{row.num_dedicated}",
                f"{row.num_fresh}",
                row.newest.isoformat() if row.newest else MISSING,
                f"{len(row.engines_stated)}",
                f"{len(row.measured_operators)}",
                "yes" if row.has_purchase_price else "no",
            )
            for row in rows
        ),
        title="Accelerators with a rental price",
    )


def _providers(rows: Sequence[ProviderCoverage]) -> Table:
    return Table(
        columns("provider | offers> | chips> | regions> | newest | stale> | undated> | terms~"),
        tuple(
            (
                row.provider,
                f"{row.num_offers}",
                f"{len(row.accelerators)}",
                f"{len(row.regions)}",
                row.newest.isoformat() if row.newest else _NO_DAY,
                f"{row.num_stale}",
                f"{row.num_undated}",
                term_words(*row.terms),
            )
            for row in rows
        ),
        title="Sellers",
    )


def _unpriced_table(pairs: Sequence[tuple[str, str]]) -> Table:
    """Return accelerators without a price to plan with, by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in pairs:
        by_reason[reason].append(name)
    return Table(
        columns("reason~ | n> | accelerators~"),
        tuple((reason, f"{len(names)}", ", ".join(names)) for reason, names in by_reason.items()),
        title="Accelerators with engine support but without a usable price",
    )


def _stale(known: Coverage) -> list[Block]:
    return [
        Table(
            columns("days old> | read on | provider | accelerator | region~ | term | $/h each> | kind"),
            tuple(_old(price, known) for price in known.stale[:MAX_OLD_ROWS]),
            title="Offers that were read too long ago, oldest first",
        ),
        Paragraph(
            f"{len(known.stale)} of {sum(row.num_offers for row in known.providers)} offers are undated or older than "
            f"{STALE_AFTER_DAYS} days on {known.as_of}; --json has all. advisor catalog refresh reads new ones."
        ),
    ]


def _old(price: Price, known: Coverage) -> tuple[str, ...]:
    return (
        f"{age_days(price, known.as_of)}" if price.is_dated else MISSING,
        price.observed_on.isoformat() if price.is_dated else _NO_DAY,
        price.provider,
        price.accelerator,
        price.region,
        term_words(price.term),
        usd(price.usd_per_accelerator_hour),
        words_of(price.price_kind),
    )
