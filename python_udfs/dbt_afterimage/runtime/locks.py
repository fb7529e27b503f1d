"""Locks between processes, which not every system has."""

from __future__ import annotations

import os
from typing import IO, Any

from dbt_afterimage.errors import AfterimageError

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # Windows, where `afterimage doctor` must still report that.
    fcntl = None


def check_system() -> None:
    """Raise an error on a system where processes cannot take turns at a folder of tables.

    Raises:
        AfterimageError: This is Windows.
    """
    if os.name == "nt" or fcntl is None:
        raise AfterimageError("Windows is not supported; use WSL (Windows Subsystem for Linux)")


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
