"""GPUStack's benchmarks: presets that fix lengths, rate and number of requests."""

from dataclasses import dataclass
from typing import Final

from advisor.evidence.serving.case import ServingCase


@dataclass(frozen=True, slots=True)
class Profile:
    """One of GPUStack's presets."""

    input_tokens: int
    output_tokens: int
    num_requests: int
    rate_per_s: float | None
    """Constant rate at which requests are sent; None: as fast as the client's limit lets them."""


_PROFILES: Final = (
    Profile(1024, 128, 1000, None),
    Profile(32, 128, 100, 1.0),
    Profile(32_000, 100, 100, 1.0),
    Profile(1000, 2000, 200, 1.0),
)
"""Source: gpustack/gpustack@60191ee (Apache-2.0), gpustack/assets/profiles_config/profiles_config.yaml."""
_TEMPLATE_TOKENS: Final = 16
"""What a chat template puts around a random prompt, at most, and published lengths count."""


def profile_of(case: ServingCase) -> Profile | None:
    """The preset that a closed loop's lengths and number of requests are those of; None where it is none.

    A prompt that a chat template made longer tells these runs, of no stated release, from others of round lengths.

    Source: GPUStack's presets, see above; guidellm sends random prompts of one length and lets no answer end early.
    """
    if case.load != "closed" or case.length_dist not in ("fixed", "mean") or case.engine_version:
        return None
    for profile in _PROFILES:
        around = case.isl - profile.input_tokens
        equal = (case.osl, case.num_requests) == (profile.output_tokens, profile.num_requests)
        if equal and 0 < around <= _TEMPLATE_TOKENS:
            return profile
    return None


def constant_rate_per_s(case: ServingCase) -> float | None:
    """Rate at which a case's requests were sent [1/s]; None where clients waited for answers.

    The published concurrency is then what was seen in flight. As many in flight as were sent says that the rate of
    the preset was taken out, and that all were sent at once.

    Source: GPUStack's presets, see above.
    """
    profile = profile_of(case)
    if profile is None or (case.concurrency or 0) >= profile.num_requests:
        return None
    return profile.rate_per_s
