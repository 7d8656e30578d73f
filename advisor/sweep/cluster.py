"""Existing Dask or Ray cluster as the backend of joblib."""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from advisor.catalog.errors import AdvisorError, MissingHardwareError, install_command

Versions = Callable[[], tuple[str, str, str]]
"""Function that returns the versions of program, catalog and refreshed prices of its process; workers can import it."""
CONNECT_S: Final = 10.0
_RAY: Final = ("ray://", "ray")
_DASK: Final = ("tcp://", "tls://", "ws://", "wss://", "ucx://")


@contextmanager
def cluster_backend(address: str, versions: Versions) -> Iterator[None]:
    """Run joblib on a cluster within the block: tcp://HOST:PORT is Dask, ray://HOST:PORT is Ray.

    Workers must have the versions of this process.

    Raises: AdvisorError: the address is not valid. MissingHardwareError: its package is missing, no server answers,
    there are no workers, or their versions differ.
    """
    if address.startswith(_RAY):
        with _ray(address, versions):
            yield
    elif address.startswith(_DASK):
        with _dask(address, versions):
            yield
    else:
        raise AdvisorError(
            f"--cluster {address} is not an address", fix="tcp://HOST:8786 for Dask, ray://HOST:10001 for Ray"
        )


def streams(address: str) -> bool:
    """Whether results of a cluster come back one by one; Ray's joblib backend returns them together."""
    return not address.startswith(_RAY)


@contextmanager
def _dask(address: str, versions: Versions) -> Iterator[None]:
    _require("distributed", "Dask", "pip install distributed joblib")
    from distributed import Client
    from joblib import parallel_config
    from joblib.parallel import get_active_backend

    _check_listening(address)
    try:
        client: Any = Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise unreachable(address, error) from None
    # The loss of a scheduler or worker is reported once, by this module and not by the library's threads too.
    for part in ("", ".client", ".comm", ".core", ".batched"):
        logging.getLogger(f"distributed{part}").setLevel(logging.CRITICAL)
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError:
            raise MissingHardwareError(
                f"the cluster at {address} has no workers",
                why=f"none came in {CONNECT_S:g} s",
                fix="start workers",
            ) from None
        _check_versions(client.run(versions, on_error="return"), versions(), address)
        with parallel_config(backend="dask", client=client, n_jobs=-1):
            backend, _ = get_active_backend()
            threads = backend.effective_n_jobs
            # joblib computes in this process if a backend has one job: a cluster of one thread would stay idle.
            backend.effective_n_jobs = lambda n_jobs: max(2, threads(n_jobs))
            yield


@contextmanager
def _ray(address: str, versions: Versions) -> Iterator[None]:
    _require("ray", "Ray", "pip install ray")
    import ray
    from joblib import parallel_config
    from ray.util.joblib import register_ray

    try:
        ray.init(address="auto" if address == "ray" else address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, OSError) as error:
        raise unreachable(address, error) from None
    try:
        found = ray.get(ray.remote(versions).remote())
        _check_versions({"a worker": found}, versions(), address)
        register_ray()
        with parallel_config(backend="ray", n_jobs=-1):
            yield
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Refuse an address at which no server listens; the client itself would keep trying."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=CONNECT_S):
            pass
    except (OSError, ValueError) as error:
        raise unreachable(address, error) from None


def unreachable(address: str, error: BaseException) -> MissingHardwareError:
    """Return the error for a cluster that does not answer."""
    return MissingHardwareError(
        f"no cluster answers at {address}",
        why=" ".join(str(error).split()) or type(error).__name__,
        fix="check the address and that scheduler and workers run; or leave --cluster out",
    )


def _check_versions(found: dict[str, Any], wanted: tuple[str, str, str], address: str) -> None:
    for worker, versions in found.items():
        if versions != wanted:
            has = f"it has {_words(versions)}" if isinstance(versions, tuple | list) else str(versions)
            raise MissingHardwareError(
                f"worker {worker} of {address} does not run this advisor",
                why=f"{has}; here is {_words(wanted)}",
                fix="install the same version on every worker, and give all one ADVISOR_CACHE_DIR",
            )


def _words(versions: Sequence[str]) -> str:
    program, catalog, prices = (*versions, "", "", "")[:3]
    return f"{program}, catalog {catalog}, " + (f"refreshed prices {prices}" if prices else "bundled prices")


def _require(package: str, name: str, fix: str) -> None:
    if find_spec(package) is None:
        raise MissingHardwareError(f"a {name} cluster needs {package}", why="it is not installed", fix=fix)
    if find_spec("joblib") is None:
        raise MissingHardwareError(
            "a cluster needs joblib", why="it is not installed", fix=install_command("sweep")
        )
