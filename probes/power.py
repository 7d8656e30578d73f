"""Work per joule of a board at each power limit: the sweep, and the restoring of limits however it ends.

Never run on hardware: the available machines may not be changed. Tested against a recorded NVML.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from advisor.catalog.errors import MissingHardwareError
from advisor.catalog.units import GIGA
from advisor.probes import nvml
from advisor.probes.process import environment
from advisor.probes.record import Gpu, Measurement

NUM_LIMITS: Final = 6
KEPT_RATE: Final = 0.85
"""Minimum fraction of the rate at the highest limit that the sweet spot keeps."""
_WEIGHT_BYTES: Final = 16 * GIGA
_FLOP_PER_TOKEN: Final = 16 * GIGA
_SEQUENCES: Final = 64
MODEL: Final = "8 billion parameters in bf16, weights alone, 64 sequences"
_RESTORE_S: Final = 30.0


def limits_of(gpu: Gpu) -> tuple[float, ...]:
    """Power limits to try on a board, evenly from its lowest to its default, lowest first [W]; empty if the driver
    reports none."""
    top = gpu.power_default_w or gpu.power_max_w
    if not gpu.power_min_w or not top or gpu.power_min_w >= top:
        return ()
    step = (top - gpu.power_min_w) / (NUM_LIMITS - 1)
    return tuple(round(gpu.power_min_w + i * step) for i in range(NUM_LIMITS))


def set_limit(gpu: int, watts: float) -> None:
    """Set the power limit of a GPU.

    Raises: MissingHardwareError: the driver does not permit it, or there is no driver.
    """
    library = nvml.library()
    try:
        library.nvmlDeviceSetPowerManagementLimit(nvml.handle(gpu), round(watts / nvml.MILLIWATT))
    except Exception as error:  # the binding's errors are known only where it is installed
        raise MissingHardwareError(
            f"GPU {gpu}: its power limit cannot be set",
            why=str(error) or type(error).__name__,
            fix="run as root on a machine of your own; providers rarely permit it",
        ) from None


@contextlib.contextmanager
def restore_limits(limits: Mapping[int, float]) -> Iterator[None]:
    """Restore these limits [W] at the end, whether by return, error, signal or death of this process.

    A separate process waits for the end of a pipe that only this process holds open.
    """
    command = [sys.executable, "-m", "advisor.probes.power", json.dumps(dict(limits))]
    guard = subprocess.Popen(
        command,
        env=environment(sorted(limits)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        if not guard.stdout.readline():
            raise MissingHardwareError(
                "power limits cannot be guarded",
                why="the process that restores them did not start",
                fix="try again",
            )
        yield
    finally:
        guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(timeout=_RESTORE_S)
        guard.stdout.close()


def guard(limits: Mapping[int, float]) -> int:
    """Wait until standard input ends, then set the limits; signals that end the probe do not end this process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    failed = 0
    for gpu, watts in limits.items():
        for _ in range(3):
            try:
                set_limit(gpu, watts)
                break
            except MissingHardwareError:
                time.sleep(1.0)
        else:
            failed += 1
    return failed


def per_joule(points: Sequence[Measurement]) -> list[Measurement]:
    """Return tokens per joule at every limit, and the sweet spot of each GPU, from the measurements of the steps.

    The sweet spot is the limit with most prompt tokens per joule among those that keep 85 % of the rate.
    """
    found: list[Measurement] = []
    seen = {(m.gpu, m.pattern, m.id): m.value for m in points if isinstance(m.value, float)}
    best: dict[int | None, list[tuple[float, float, float]]] = {}
    for (gpu, pattern, name), rate in seen.items():
        power_w = seen.get((gpu, pattern, f"{name}_draw"))
        if not power_w:
            continue
        tokens = rate / _FLOP_PER_TOKEN if name == "power.product" else _SEQUENCES * rate / _WEIGHT_BYTES
        stage = "prefill" if name == "power.product" else "decode"
        per = tokens / power_w
        found.append(
            Measurement(id=f"power.{stage}", gpu=gpu, pattern=pattern, value=per, unit="tokens/J", note=MODEL)
        )
        if stage == "prefill":
            best.setdefault(gpu, []).append((per, rate, float(pattern.split()[1])))
    for gpu, tried in best.items():
        full = max(rate for _, rate, _ in tried)
        per, rate, limit_w = max(point for point in tried if point[1] >= KEPT_RATE * full)
        note = f"{rate / full:.0%} of the full rate, {per:.3g} prompt tokens per joule of {MODEL}"
        found.append(Measurement(id="power.sweet_spot", gpu=gpu, value=limit_w, unit="W", note=note))
    return found


if __name__ == "__main__":
    sys.exit(guard({int(gpu): watts for gpu, watts in json.loads(sys.argv[1]).items()}))
