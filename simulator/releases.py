"""Which release of an engine a run used: eras and spans by version number or, without one, by date."""

from advisor.catalog.schema import Engine, EngineEra, ReleaseSpan

_YEAR_DIGITS = 4


def era_of(engine: Engine, *, version: str = "", date: str = "") -> EngineEra | None:
    """The era of an engine that a version or a date belongs to; the newest where neither is given.

    Source: own definition; version numbers compare by their leading integers, dates as ISO text, spans by their middle.
    """
    if not engine.eras:
        return None
    key, date = _version_key(version), middle_of(date)
    if key:
        known = [era for era in engine.eras if _version_key(era.from_version) <= key]
        return known[-1] if known else engine.eras[0]
    if date:
        known = [era for era in engine.eras if era.from_date <= date]
        return known[-1] if known else engine.eras[0]
    return engine.eras[-1]


def belongs_to(span: ReleaseSpan, *, version: str = "", date: str = "") -> bool:
    """Whether a release, by its version or else by its date, is one of a span; without either it is the newest.

    Source: own definition.
    """
    if is_before(version, date, span.from_version, span.from_date):
        return False
    return span.until_version is None or is_before(version, date, span.until_version, span.until_date)


def is_before(version: str, date: str, until_version: str, until_date: str) -> bool:
    """Whether a release, by its version or else by its date, is older than another; no without either.

    Source: own definition; without version and date it is the newest release.
    """
    key = _version_key(version)
    return key < _version_key(until_version) if key else bool(date) and middle_of(date) < until_date


def middle_of(date: str) -> str:
    """A date as ISO text: that of a year (2025) or of two (2025-2026) is its middle; others stay as they are.

    Source: own definition.
    """
    years = date.split("-")
    if not all(len(year) == _YEAR_DIGITS and year.isdigit() for year in years):
        return date
    middle = int(years[0]) + int(years[-1]) + 1  # of half years
    return f"{middle // 2}-{'07' if middle % 2 else '01'}-01"


def _version_key(version: str) -> tuple[int, ...]:
    """Leading integers of a version without trailing zeros; () where there are none."""
    parts: list[int] = []
    for piece in version.lstrip("v").split("."):
        digits = ""
        for character in piece:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        parts.append(int(digits))
    while parts and parts[-1] == 0:  # 0.8 is 0.8.0
        parts.pop()
    return tuple(parts)
