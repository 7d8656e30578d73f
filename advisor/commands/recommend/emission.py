"""`--emit`: the files that start the first option, in a folder or below the answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.commands.recommend.options import Emission
from advisor.recommend.result import Recommendation
from advisor.render.answer import Answer, Figure
from advisor.render.atomic import check_writable, write_text

NOTHING: Final = Emission()


def check_emission(typed: Emission) -> None:
    """Refuse a folder without a form, or one that is a file, before the work starts.

    Raises: AdvisorError: so it is. UnwritableError: nothing may be written there.
    """
    folder = typed.emit_dir
    if folder is not None and typed.emit is None:
        raise AdvisorError(
            "--emit-dir says where, not in which form", fix=f"--emit compose --emit-dir {folder}"
        )
    if folder is not None and folder.exists() and not folder.is_dir():
        raise AdvisorError(
            f"--emit-dir {folder} is a file", fix="name a folder, or one that does not exist yet"
        )
    if folder is not None:
        missing = folder / "files"
        while not missing.parent.exists():
            missing = missing.parent
        check_writable(missing)


def with_files(answer: Answer, found: Recommendation, typed: Emission) -> Answer:
    """The answer with the files that start its first option, written where a folder is named and shown otherwise.

    Raises: AdvisorError: they cannot be made for this hardware or engine. UnwritableError: the system refused.
    """
    if typed.emit is None:
        return answer
    from advisor.emit.formats import emitted

    return with_emitted(answer, emitted(found.model, found.options[0], typed.emit), typed)


def with_emitted(answer: Answer, files: Mapping[str, str], typed: Emission) -> Answer:
    """The answer with files, written where a folder is named and shown otherwise.

    Raises: UnwritableError: the system refused.
    """
    result = {**answer.result, "deployment": {"format": typed.emit, "files": files}}
    if typed.emit_dir is None:
        blocks = (*answer.blocks, *(Figure(text.rstrip(), title=name) for name, text in files.items()))
        return replace(answer, result=result, blocks=blocks)
    for name, text in files.items():
        (typed.emit_dir / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(typed.emit_dir / name, text)
    wrote = f"wrote {', '.join(sorted(files))} into {typed.emit_dir}"
    return replace(answer, result=result, notes=(*answer.notes, wrote))
