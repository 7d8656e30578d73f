"""The user's own files and the kept price lists that replace data of the catalog."""

import os
from pathlib import Path
from shlex import quote
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import check_record, read_json
from advisor.catalog.schema import Calibration


def given_calibration(path: Path | None) -> Calibration | None:
    """Return the calibration of --calibration; None where none was given.

    Raises: InputFileError: as read_calibration.
    """
    return None if path is None else read_calibration(path)


def read_calibration(path: Path) -> Calibration:
    """Return the calibration in a JSON file.

    Raises: InputFileError: the file cannot be read, is not JSON, is no calibration, or names an accelerator that
        the catalog does not hold.
    """
    from advisor.probes.document import find_recording

    if not path.exists() and (recording := find_recording(path)) != path:
        raise InputFileError(
            f"{path}: is a recording, not a calibration",
            why=f"{recording.name} is what `advisor probe` wrote",
            fix=f"advisor calibrate {quote(str(path))} -o calibration.json, then --calibration calibration.json",
        )
    values = read_json(path, "correct that place")
    if not isinstance(values, dict) or values.get("kind") != "calibration":
        raise InputFileError(
            f"{path}: is no calibration",
            why='its field kind is not "calibration"',
            fix="name a file that `advisor calibrate -o FILE` wrote",
        )
    # `advisor calibrate -o` wraps the record in the document that every command writes.
    record = values.get("calibration", values)
    if not isinstance(record, dict):
        raise InputFileError(
            f"{path}: calibration is no object", fix="name a file that `advisor calibrate` wrote"
        )
    found = check_record(Calibration, record, str(path))
    try:
        accelerators.by_id(found.accelerator)
    except UnknownNameError as error:
        raise InputFileError(f"{path}: {error.what}", why=error.why, fix=error.fix, hint=error.hint) from None
    return found


FOLDER_VARIABLE: Final = "ADVISOR_CACHE_DIR"
_APPLICATION: Final = "ai-hardware-advisor"


def cache_folder() -> Path:
    """Return the cache of the user's system, or the folder that ADVISOR_CACHE_DIR names."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path(_APPLICATION, appauthor=False)


def kept_prices() -> Path | None:
    """Return the folder of refreshed prices for `prices_as_of`; None where nothing was ever refreshed."""
    from advisor.catalog.prices import find_cached_prices

    return find_cached_prices(cache_folder())


def kept_prices_note() -> str:
    """Return the note that refreshed prices count, with their date; empty if no refreshed prices are kept.

    Raises: InputFileError: they are damaged, with the way out.
    """
    from advisor.catalog.prices import read_folder

    folder = kept_prices()
    if folder is None:
        return ""
    try:
        prices = read_folder(folder)
    except InputFileError as error:
        raise InputFileError(
            f"the refreshed prices are damaged: {error.what}",
            why=error.why,
            fix="advisor catalog refresh, or advisor catalog refresh --clear for the bundled ones",
        ) from error
    newest = max((price.observed_on for price in prices), default=None)
    return (
        f"refreshed prices count before the bundled ones; the newest was read on {newest}" if newest else ""
    )
