"""Months of releases of training frameworks: a version, a container of NVIDIA's or a date as a month."""

import re
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.training import months_of_versions
from advisor.simulator.training.job import TrainingJob

UNDATED: Final = "2026-04"
"""Month of software whose release is not stated."""
_CONTAINER: Final = re.compile(r"2\d\.\d\d(\.|$)")
_DATE: Final = re.compile(r"(20\d\d)(-\d\d)?(?![\d.])")
_YEAR: Final = re.compile(r"20\d\d")
_VERSION: Final = re.compile(r"(?:^|[\sv])(\d+\.\d+)(?=[.\sa-z+]|$)")
_PACKAGES: Final = {
    "megatron": "megatron-core",
    "torchtitan": "torchtitan",
    "deepspeed": "deepspeed",
    "maxtext": "maxtext",
    "peft": "peft",
}
"""Package whose versions below 1 a family states; versions from 1 on are PyTorch's."""
_LEAST_TORCH: Final = 1


def year_month_of(job: TrainingJob) -> str:
    """Return the month of the job's software (a release, a container or a date); empty if none is stated.

    Source: own definition.
    """
    return release_month(job.framework, job.framework_version) or release_month(job.framework, job.date)


def last_month_of(job: TrainingJob) -> str:
    """Return the last month that the job's software may be of: a year alone is its December; empty if none is stated.

    A feature that came within a stated year is not missing from it.

    Source: own definition.
    """
    stated = job.framework_version or job.date
    return f"{stated}-12" if _YEAR.fullmatch(stated) else year_month_of(job)


def release_month(framework: str, text: str) -> str:
    """Return the month of a release as a user names it; empty if its month is not known.

    Read are a date (2024-04, 2024-04-22), a container (25.11), and a version of the family's own package or of PyTorch
    (0.15.0, torch 2.11). A year alone is its January: software is older than the page that reports on it. A version
    newer than all that are known is as old as the newest.

    Source: catalog/data/training/releases.toml.
    """
    if _CONTAINER.match(text):
        return f"20{text[:2]}-{text[3:5]}"
    if date := _DATE.match(text):
        return date[1] + (date[2] or "-01")
    version = _VERSION.search(text)
    return _month_of_version(framework, version[1]) if version else ""


def check_release_name(framework: str, text: str) -> str:
    """Return a release of a framework as typed.

    Raises: AdvisorError: no month is known of it.
    Source: as `release_month`.
    """
    if text and not release_month(framework, text):
        own = _PACKAGES.get(framework, "torch")
        newest = list(months_of_versions(own))[-1]
        raise AdvisorError(
            f"--framework-version {text!r} names no release of {framework} whose date is known",
            why=f"a month, a container of NVIDIA's or a version of {own} is read",
            fix=f"--framework-version 2024-06, 25.11 or {newest}",
        )
    return text


def _month_of_version(framework: str, version: str) -> str:
    own = int(version.split(".")[0]) < _LEAST_TORCH
    package = _PACKAGES.get(framework, "") if own else "torch"
    if not package or (framework in ("megatron", "maxtext") and not own):
        return ""
    known = {_number(name): month for name, month in months_of_versions(package).items()}
    older = [number for number in known if number <= _number(version)]
    return known[max(older)] if older else ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
