"""Child processes that end with the process that started them, however it ends."""

import os
import threading
import time
from functools import cache
from typing import Final

_LOOKS_EVERY_S: Final = 0.5


@cache
def end_with(parent: int) -> None:
    """End this process at once when process `parent` dies or is killed.

    Assumes: called in a child; the system hands orphans to another process, as POSIX does. Elsewhere it does nothing.
    Source: own definition.
    """
    if os.name == "posix" and parent != os.getpid():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOKS_EVERY_S)
    os._exit(1)
