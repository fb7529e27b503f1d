"""The folder for what Afterimage makes in a project: warehouse, caches, pages."""

from __future__ import annotations

from pathlib import Path

STATE = Path(".afterimage")


def state_folder(project: Path) -> Path:
    """Return a project's state folder, made where it is not there; git ignores all of it.

    Args:
        project: The project's folder.
    """
    folder = project / STATE
    folder.mkdir(exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    return folder
