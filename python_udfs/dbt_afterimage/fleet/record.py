"""What `afterimage up` keeps between its runs, so that the next one builds what must be built.

It is one file for each target, in the project's state folder. It is written before a build begins,
so that a build that is killed is taken up by the next one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.locks import lock
from dbt_afterimage.runtime.project import Project
from dbt_afterimage.runtime.state import state_folder

_FORM = 2


@dataclass
class Record:
    """The state after the last run.

    Attributes:
        folder: Where it is kept.
        pending: The ids of the nodes that were to be built, and were not built or failed.
        versions: The id of each staging model -> the version of its table from which all below it
            was built.
        texts: A checksum of the project's files.
        seeds: The id of each large seed -> a checksum of its file from which all below was built.
        settings: A checksum of its variables and of dbt_project.yml.
        listing: A checksum of afterimage.yml.
    """

    folder: Path
    pending: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    texts: str = ""
    seeds: dict[str, str] = field(default_factory=dict)
    settings: str = ""
    listing: str = ""

    @property
    def manifest(self) -> Path | None:
        """The folder of dbt's manifest as it was then; none if there was no run."""
        return self.folder if (self.folder / "manifest.json").is_file() else None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep other runs on the same tables away, in the project's folder at least.

        Raises:
            AfterimageError: Another run is at work.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a", encoding="utf-8") as file:
            try:
                lock(file, wait=False)
            except BlockingIOError:
                raise AfterimageError(
                    "another `afterimage up` is at work in this project, for the same target: wait"
                    " until it ends"
                ) from None
            yield

    def keep(self, project: Project) -> None:
        """Write the record, and the manifest if the project has changed.

        Args:
            project: The project as it was parsed for this run.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = texts_of(project)
        if texts != self.texts or self.manifest is None:
            # What was edited is pending by now. If the manifest cannot be written, the next run
            # compares with the one before, and builds the same again.
            self.texts = ""
            self._write()
            # dbt cannot read one that is half written.
            new = self.folder / "manifest.json.new"
            project.manifest.write(str(new))
            new.replace(self.folder / "manifest.json")
            self.texts = texts
        self._write()

    def line(self, key: str) -> dict[str, Any] | None:
        """Return what the health page says of a staging table that is as it was then.

        One that is pending may have changed in a run that failed.

        Args:
            key: The id of the staging model.
        """
        # The table is read again where the file is gone, or was written by another version.
        with suppress(OSError, ValueError, KeyError):
            said = json.loads(self._page_file(key).read_text(encoding="utf-8"))
            if key not in self.pending and said["version"] == self.versions.get(key):
                return dict(said["line"])
        return None

    def keep_line(self, key: str, line: Mapping[str, Any]) -> None:
        """Keep what the health page says of a staging table.

        Args:
            key: The id of the staging model.
            line: The figures.
        """
        version = self.versions.get(key)
        if version is not None and key not in self.pending:
            self._page_file(key).parent.mkdir(parents=True, exist_ok=True)
            said = json.dumps({"version": version, "line": line})
            self._page_file(key).write_text(said, encoding="utf-8")

    def _page_file(self, key: str) -> Path:
        return self.folder / "health" / f"{key}.json"

    def _write(self) -> None:
        said = {"form": _FORM, **asdict(self)}
        del said["folder"]
        draft = self.folder / "record.json.new"
        draft.write_text(json.dumps(said, indent=1, sort_keys=True), encoding="utf-8")
        draft.replace(self.folder / "record.json")


def of(project: Project) -> Record:
    """Return the record of a project and its target, or an empty one.

    Args:
        project: The dbt project.
    """
    name = re.sub(r"\W+", "-", "-".join((*project.target_names, str(project.credentials.schema))))
    folder = state_folder(project.folder) / "up" / name
    said: Mapping[str, Any] = {}
    # A record that cannot be read counts as missing: everything is built.
    with suppress(OSError, ValueError):
        said = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if said.get("form") != _FORM:
        return Record(folder)
    return Record(folder, **{name: value for name, value in said.items() if name != "form"})


def texts_of(project: Project) -> str:
    """Return a checksum of the files that dbt has read of the project."""
    files = sorted(project.manifest.files.items())
    return _checksum(f"{key} {file.checksum.checksum}" for key, file in files)


def large_seeds_of(project: Project) -> dict[str, str]:
    """Return a checksum of each seed that dbt itself knows by its path alone, as it is large.

    It is empty if the file cannot be found.
    """
    return {
        # dbt remembers the folder of a project that was moved.
        key: checksum_of_file(
            Path(
                project.folder if project.file_of(node) else node.root_path,
                node.original_file_path,
            )
        )
        for key, node in project.manifest.nodes.items()
        if node.resource_type == "seed" and node.checksum.name == "path"
    }


def settings_of(project: Project) -> str:
    """Return a checksum of what models may depend on and dbt's `state:modified` does not see.

    dbt's own checksum of variables is left out. It has the target too, but only if the command
    names it, and none of ours takes `--vars`.
    """
    check = project.manifest.state_check
    said = [str(project.manifest.metadata.dbt_version), str(check.project_env_vars_hash.checksum)]
    said += [f"{name} {one.checksum}" for name, one in sorted(check.project_hashes.items())]
    said += [f"{name} {value}" for name, value in sorted(project.manifest.env_vars.items())]
    return _checksum(said)


def _checksum(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def checksum_of_file(path: Path) -> str:
    """Return a checksum of a file; an empty text if it does not exist."""
    if not path.is_file():
        return ""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()
