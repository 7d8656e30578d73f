"""Device that torch offers, and facts that only torch knows about it."""

import torch

from advisor.catalog.errors import MissingHardwareError


def open_device() -> torch.device:
    """Return the first device that this process may use: CUDA or ROCm, else Apple's Metal.

    Raises: MissingHardwareError: torch sees no GPU.
    """
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    if torch.backends.mps.is_available():
        return torch.device("mps", 0)
    raise MissingHardwareError(
        "torch sees no GPU",
        why="the installed torch was built without GPU support, or the driver does not answer",
        fix="install a torch build for this driver; `nvidia-smi` must list the GPU",
    )


def runtime_name() -> str:
    """Return cuda, rocm or mps."""
    if torch.cuda.is_available():
        return "rocm" if torch.version.hip else "cuda"
    return "mps"


def describe() -> tuple[str, str, list[dict[str, float | int | str]]]:
    """Return the runtime, NCCL version and facts of every visible GPU, in a form that fits one line of JSON."""
    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if number and torch.version.hip is None else ""
    return runtime_name(), nccl, [properties(index) for index in range(number)]


def properties(index: int) -> dict[str, float | int | str]:
    """Return the fields of a GPU's record that torch reports but the driver's tools do not."""
    found = torch.cuda.get_device_properties(index)
    wanted = {
        "num_sms": "multi_processor_count",
        "visible_memory_bytes": "total_memory",
        "l2_bytes": "L2_cache_size",
        "max_threads_per_sm": "max_threads_per_multi_processor",
        "registers_per_sm": "regs_per_multiprocessor",
        "shared_memory_per_sm_bytes": "shared_memory_per_multiprocessor",
        "shared_memory_per_block_bytes": "shared_memory_per_block_optin",
    }
    facts: dict[str, float | int | str] = {
        name: getattr(found, attribute) for name, attribute in wanted.items() if hasattr(found, attribute)
    }
    if torch.version.hip is not None:
        facts["compute_capability"] = str(found.gcnArchName)
    else:
        facts["compute_capability"] = f"{found.major}.{found.minor}"
    return facts
