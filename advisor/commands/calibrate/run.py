"""Turn a probe into figures of one machine."""

from advisor.ask.options import SharedOptions
from advisor.commands.calibrate.options import CalibrateInput
from advisor.commands.calibrate.view import calibration_answer
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.render.answer import Answer


def calibrate(asked: CalibrateInput, shared: SharedOptions) -> Answer:
    """Return a calibration from a probe file.

    Raises: InputFileError: the file is no probe, or holds nothing to calibrate with.
    """
    return calibration_answer(calibration_of(read_probe(asked.file)), {"probe": asked.file})
