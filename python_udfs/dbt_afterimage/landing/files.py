"""Looks at landed files: their format, and what tells each from all others."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.text import visible


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: As Spark calls it.
        endings: What the names of its files end in, before the ending of a compression.
        magic: What its files begin with; none where they are text.
    """

    name: str
    endings: tuple[str, ...]
    magic: bytes | None = None


FORMATS = (
    Format("parquet", (".parquet", ".pq"), b"PAR1"),
    Format("orc", (".orc",), b"ORC"),
    Format("avro", (".avro",), b"Obj\x01"),
    Format("csv", (".csv",)),
    Format("json", (".json", ".jsonl", ".ndjson")),
)
# What text may be packed with so that Spark and PyArrow unpack it alike.
_PACKED = (".gz", ".bz2")

# Tables whose files are more than rows: what was deleted is still among them.
_LAKES = {"_delta_log": "delta", ".hoodie": "hudi"}


@dataclass(frozen=True)
class File:
    """A landed file.

    Attributes:
        path: Where it is, absolute.
        name: Its path from what was landed, with `/`; of a file landed by itself, its name.
        size: In bytes.
        modified: When it was written, in nanoseconds.
    """

    path: Path
    name: str
    size: int
    modified: int

    @property
    def partitions(self) -> tuple[str, ...]:
        """The folders `column=value` that it is in."""
        return tuple(self.name.split("/")[:-1])

    def content(self) -> str:
        """Return what tells its content from any other."""
        digest = blake2b(digest_size=8)
        with self.path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Refuse a file that is not what it was when it was looked at.

        Raises:
            AfterimageError: Somebody has written to it since, or it is gone.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise AfterimageError(f"cannot read {shown(self.path)}: {error.strerror}") from None
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise AfterimageError(
                f"{shown(self.path)} is being written to; land again when it is whole"
            )


@dataclass(frozen=True)
class Landing:
    """A file, or a folder of files of one table.

    Attributes:
        path: Where it is, absolute.
        format: The format's name.
        files: The files, sorted by name.
    """

    path: Path
    format: str
    files: tuple[File, ...]

    @property
    def table(self) -> str:
        """What the table is called where no name is given."""
        name = self.path.name
        if self.path.is_file():
            name = re.sub(rf"({'|'.join(map(re.escape, _PACKED))})$", "", name, flags=re.IGNORECASE)
            name = name.rpartition(".")[0] or name
        name = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower()
        if not name:
            raise AfterimageError(
                f"no table can be called after {shown(self.path)}; name it: --as SCHEMA.TABLE"
            )
        return f"t_{name}" if name[0].isdigit() else name


def shown(path: Path) -> str:
    """Return a path as it is said to a person."""
    return visible(str(path))


def sql_path(path: Path) -> str:
    """Return a path as Spark takes it between backticks, where it reads files by their path.

    Spark would take some of its signs for patterns.
    """
    return re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path)).replace("`", "``")


def is_hidden(name: str) -> bool:
    """Whether Spark does not read a file or a folder of this name, such as `_SUCCESS`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def look(path: Path) -> Landing:
    """Look at a file, or at a folder of files of one table.

    Args:
        path: The file or the folder.

    Raises:
        AfterimageError: It is none that can be landed. The text says why.
    """
    if re.match(r"^\w+:/", str(path)):
        raise AfterimageError(
            f"{shown(path)} is not on this machine; make it a table of the catalog,"
            " or give the path where it is mounted"
        )
    path = Path(os.path.abspath(path))
    try:
        str(path).encode()
        files = sorted(_files(path), key=lambda file: file.name)
    except UnicodeEncodeError:
        raise AfterimageError(f"the path {shown(path)} is not UTF-8; rename it") from None
    except OSError as error:
        raise AfterimageError(
            f"cannot read {visible(str(error.filename))}: {error.strerror}"
        ) from None
    if not files:
        raise AfterimageError(f"{shown(path)} has no files yet; land it when it has one")
    formats: dict[str, File] = {}
    for file in files:
        formats.setdefault(_format(file), file)
    if len(formats) > 1:
        examples = ", ".join(f"{name} ({visible(file.name)})" for name, file in formats.items())
        raise AfterimageError(
            f"{shown(path)} has files of several formats: {examples}; land a table's files of"
            " one format from a folder of their own"
        )
    _check_folders(path, files)
    return Landing(path, next(iter(formats)), tuple(files))


def _files(path: Path) -> list[File]:
    if not path.exists():
        raise AfterimageError(f"there is no {shown(path)}; give a file or a folder that is there")
    if path.is_file():
        return [_file(path, path.name)]
    found = []
    for folder, folders, names in os.walk(path, onerror=_stop, followlinks=True):
        for mark, lake in _LAKES.items():
            if mark in folders:
                raise AfterimageError(
                    f"{shown(Path(folder))} is a {lake} table, whose files hold more than its rows;"
                    f" make it a table of the catalog (using {lake} location '…')"
                )
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for name in names:
            if not is_hidden(name):
                file = Path(folder, name)
                str(file).encode()
                found.append(_file(file, file.relative_to(path).as_posix()))
    return found


def _stop(error: OSError) -> None:
    raise error


def _file(path: Path, name: str) -> File:
    found = path.stat()
    return File(path, name, found.st_size, found.st_mtime_ns)


def _format(file: File) -> str:
    with file.path.open("rb") as opened:
        beginning = opened.read(4)
    for one in FORMATS:
        if one.magic and beginning.startswith(one.magic):
            return one.name
    name = file.path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    for one in FORMATS:
        if name.endswith(one.endings):
            if one.magic:
                raise AfterimageError(
                    f"{shown(file.path)} is no {one.name} file, whatever its name says;"
                    " if it is being written, land again when it is whole"
                )
            return one.name
    known = ", ".join(ending for one in FORMATS for ending in one.endings)
    raise AfterimageError(
        f"{shown(file.path)} is of no format that can be landed; these are: {known}"
        f" (text also as {' or '.join(_PACKED)})"
    )


def _check_folders(path: Path, files: list[File]) -> None:
    # Spark would leave out the files of a folder that is no partition, and say nothing.
    columns = {tuple(part.partition("=")[0] for part in file.partitions) for file in files}
    for file in files:
        for part in file.partitions:
            if "=" not in part:
                raise AfterimageError(
                    f"{shown(path)} has the folder {visible(part)}, which is no partition"
                    f" (column=value); if each folder is a table, give them: {shown(path)}/*"
                )
    if len(columns) > 1:
        several = " and ".join(visible("/".join(one)) or "none" for one in sorted(columns))
        raise AfterimageError(
            f"{shown(path)} has files under different partitions: {several};"
            " land the files of one kind from a folder of their own"
        )
