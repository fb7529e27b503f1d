"""Locks between processes, and the systems that have none of the kind we need."""

from __future__ import annotations

import os
from typing import IO, Any

from dbt_afterimage.errors import AfterimageError

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # Windows, where `afterimage doctor` still has to say so.
    fcntl = None


def check_system() -> None:
    """Refuse a system on which processes cannot take turns at a folder of tables.

    Raises:
        AfterimageError: This is Windows.
    """
    if os.name == "nt" or fcntl is None:
        raise AfterimageError("Windows is not supported; work in WSL (Windows Subsystem for Linux)")


def lock(file: IO[str], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed or the process ends, however it ends.

    Args:
        file: The file.
        shared: Whether others may hold it shared too.
        wait: Whether to wait until it is free.

    Raises:
        BlockingIOError: Another has it, and `wait` is false.
        AfterimageError: This is Windows.
    """
    check_system()
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
