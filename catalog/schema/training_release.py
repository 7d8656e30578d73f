"""Releases of training frameworks: months of versions, and the first release with a feature."""

from pydantic import Field

from advisor.catalog.schema.record import Record

MONTH = r"^20\d\d-\d\d$"


class FirstRelease(Record):
    """Month in which a framework first had a feature, and the release that brought it."""

    framework: str
    """Family as in `TrainingJob.framework`."""
    feature: str
    month: str = Field(pattern=MONTH)
    release: str
    source: str
    """Commit, tag or package in which the feature was found."""
