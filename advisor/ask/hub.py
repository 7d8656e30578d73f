"""Files of a model on the Hugging Face hub: its config and the index of its weights, kept, and never executed."""

import os
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from advisor.ask.own_data import cache_folder
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, UnknownNameError, install_command
from advisor.catalog.hub import Fetch
from advisor.catalog.resolve import near_misses
from advisor.catalog.units import MB

CONFIG: Final = "config.json"
_FILES: Final = (CONFIG, "hf_quant_config.json", "model.safetensors.index.json")
"""Files that are fetched: no weights, no tokenizer and no code."""
_MOST_BYTES: Final = 32 * MB
"""Largest file that is fetched; the index of the largest published model has 12 MB."""
_TIMEOUT_S: Final = 10.0
_OFFLINE_VARIABLE: Final = "HF_HUB_OFFLINE"


def hub_fetch(*, offline: bool) -> Fetch:
    """Return the function that finds a model's files: kept ones, else those of the hub unless `offline`."""
    return partial(_folder_of, offline=offline or os.environ.get(_OFFLINE_VARIABLE, "0") not in ("", "0"))


def models_folder() -> Path:
    """Return the folder in which fetched files are kept, one folder for each repository."""
    return cache_folder() / "models"


def _folder_of(repository: str, *, offline: bool) -> Path | None:
    """Return the folder with the files of a repository; None if they are not kept and the network may not be used.

    Raises: AdvisorError: they cannot be fetched; says which file to download.
    """
    folder = models_folder() / repository.replace("/", "--")
    if (folder / CONFIG).is_file():
        return folder
    if offline:
        return None
    by_hand = f"download {CONFIG} of huggingface.co/{repository} and name its path or folder as the model"
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise UnknownNameError(
            f"unknown model '{repository}'",
            why="the catalog has no record of it, and huggingface_hub, which fetches its config, is not installed",
            fix=f"{install_command('hub')}, or {by_hand}",
            hint=_near(repository),
        ) from None
    with TemporaryDirectory() as scratch:
        fetched = Path(scratch) / "files"
        fetched.mkdir()
        for name in _FILES:
            _fetch_file(repository, name, fetched, by_hand)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(fetched, folder)
    return folder


def _near(repository: str) -> str:
    """Return the models of the catalog whose names are like that of a repository, as a hint."""
    near = near_misses(repository.rpartition("/")[2], models.all_ids(), {})
    return f"did you mean: {', '.join(near)}" if near else ""


def _fetch_file(repository: str, name: str, folder: Path, by_hand: str) -> None:
    """Write one file of a repository into a folder; files other than the config may be absent.

    Raises: AdvisorError: the repository is not there, closed or out of reach, or the file is too large.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError

    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        url = hf_hub_url(repository, name, endpoint=endpoint)
        size = get_hf_file_metadata(url, timeout=_TIMEOUT_S, endpoint=endpoint).size or 0
        if size > _MOST_BYTES:
            raise AdvisorError(
                f"{name} of {repository} has {size / MB:,.0f} MB",
                why=f"no config or index of a published model has more than {_MOST_BYTES / MB:g} MB",
                fix=by_hand,
            )
        path = hf_hub_download(repository, name, local_dir=folder, endpoint=endpoint, etag_timeout=_TIMEOUT_S)
    except GatedRepoError:
        raise UnknownNameError(
            f"model '{repository}' is closed",
            why="its publisher gives its files to those who accepted the terms",
            fix=f"accept them at huggingface.co/{repository} and run hf auth login, or {by_hand}",
        ) from None
    except RepositoryNotFoundError:
        raise UnknownNameError(
            f"unknown model '{repository}'",
            why="neither the catalog nor the hub has it, or it is private",
            fix="type an id that advisor catalog models lists, or the id as the hub spells it",
            hint=_near(repository),
        ) from None
    except EntryNotFoundError:
        if name == CONFIG:
            raise UnknownNameError(
                f"model '{repository}' has no {CONFIG}",
                why="the shape of a model is read from that file; repositories of GGUF files have none",
                fix="name the repository of the original model, with --precision for the format",
            ) from None
        return
    except AdvisorError:
        raise
    except Exception as error:  # no network, a time-out, an answer that is none: the library's many kinds
        raise UnknownNameError(
            f"unknown model '{repository}'",
            why="the catalog has no record of it, and the hub, which may have it, is out of reach "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]})",
            fix=by_hand,
            hint=_near(repository),
        ) from None
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    assert Path(path) == folder / name
