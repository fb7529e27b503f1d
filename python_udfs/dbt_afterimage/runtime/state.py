"""The folder for everything that Afterimage makes in a project: warehouse, caches, pages."""

from __future__ import annotations

from pathlib import Path

STATE = Path(".afterimage")


def state_folder(project: Path) -> Path:
    """Return a project's state folder; make it, ignored by git, if it does not exist.

    Args:
        project: The project's folder.
    """
    folder = project / STATE
    folder.mkdir(exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    return folder
