"""Calibration files: what a probe measured on one machine, read and checked."""

from pathlib import Path

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import checked, read_json
from advisor.catalog.schema import Calibration


def given_calibration(path: Path | None) -> Calibration | None:
    """The calibration of --calibration; None where none was given.

    Raises: InputFileError: as read_calibration.
    """
    return None if path is None else read_calibration(path)


def read_calibration(path: Path) -> Calibration:
    """The calibration in a JSON file.

    Raises: InputFileError: the file cannot be read, is not JSON, is no calibration, or names an accelerator that
        the catalog does not hold.
    """
    from advisor.probes.document import bundled

    if not path.exists() and (recording := bundled(path)) != path:
        raise InputFileError(
            f"{path}: is a recording, not a calibration",
            why=f"{recording.name} is what `advisor probe` wrote",
            fix=f"advisor calibrate {path} -o calibration.json, then --calibration calibration.json",
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
    found = checked(Calibration, record, str(path))
    try:
        accelerators.by_id(found.accelerator)
    except UnknownNameError as error:
        raise InputFileError(f"{path}: {error.what}", why=error.why, fix=error.fix, hint=error.hint) from None
    return found
