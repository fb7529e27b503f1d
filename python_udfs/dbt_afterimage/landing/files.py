"""Looks at landed files: their format, and how to recognise each again."""

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
        endings: File name endings, without that of a compression.
        magic: The first bytes of its files; none for text.
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
# Compressions of text that Spark and PyArrow both read.
_PACKED = (".gz", ".bz2")

# Files that Qlik writes beside its data files, one for each, with the columns and their types.
_DESCRIPTION = ".dfm"

# Tables whose files also hold deleted rows.
_LAKES = {"_delta_log": "delta", ".hoodie": "hudi"}


@dataclass(frozen=True)
class File:
    """A landed file.

    Attributes:
        path: Where it is, absolute.
        name: Its path within the landed folder, with `/`; for a single file, its name.
        size: In bytes.
        modified: When it was written, in nanoseconds.
    """

    path: Path
    name: str
    size: int
    modified: int

    @property
    def partitions(self) -> tuple[str, ...]:
        """Its folders of the form `column=value`."""
        return tuple(part for part in self.name.split("/")[:-1] if "=" in part)

    @property
    def dates(self) -> tuple[str, ...]:
        """Its other folders, which are parts of a date, such as `2024/01/31`, or a period."""
        return tuple(part for part in self.name.split("/")[:-1] if "=" not in part)

    def content(self) -> str:
        """Return a digest of its content."""
        digest = blake2b(digest_size=8)
        with self.path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Raise an error if the file has changed since it was looked at.

        Raises:
            AfterimageError: It was written to since, or it is gone.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise AfterimageError(f"cannot read {shown(self.path)}: {error.strerror}") from None
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise AfterimageError(
                f"{shown(self.path)} is still being written; land it again when it is complete"
            )


@dataclass(frozen=True)
class Landing:
    """A file, or a folder of files of one table.

    Attributes:
        path: Where it is, absolute.
        format: The format's name.
        files: The files, sorted by name.
        is_described: Whether files beside them describe them, and hold no rows.
    """

    path: Path
    format: str
    files: tuple[File, ...]
    is_described: bool = False

    @property
    def table(self) -> str:
        """The default name of the table."""
        name = self.path.name
        if self.path.is_file():
            name = re.sub(rf"({'|'.join(map(re.escape, _PACKED))})$", "", name, flags=re.IGNORECASE)
            name = name.rpartition(".")[0] or name
        return table_of(name, shown(self.path))


def table_of(name: str, what: str) -> str:
    """Return the default name of a table.

    Args:
        name: The name of a file, a folder or a topic.
        what: The same, as messages show it.

    Raises:
        AfterimageError: Nothing is left of the name.
    """
    table = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower()
    if not table:
        raise AfterimageError(f"{what} gives no table name; choose one: --as SCHEMA.TABLE")
    return f"t_{table}" if table[0].isdigit() else table


def shown(path: Path) -> str:
    """Return a path as messages show it."""
    return visible(str(path))


def sql_path(path: Path) -> str:
    """Return a path for SQL that reads files by their path, between backticks.

    Spark would read some of its characters as patterns.
    """
    return re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path)).replace("`", "``")


def is_hidden(name: str) -> bool:
    """Whether Spark ignores a file or folder of this name, such as `_SUCCESS`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def look(path: Path) -> Landing:
    """Look at a file, or at a folder of files of one table.

    Args:
        path: The file or the folder.

    Raises:
        AfterimageError: It cannot be landed. The text says why.
    """
    if re.match(r"^\w+:/", str(path)):
        raise AfterimageError(
            f"{shown(path)} is not a local path; create a table for it in the catalog,"
            " or give the path where it is mounted"
        )
    path = Path(os.path.abspath(path))
    try:
        str(path).encode()
        found = sorted(_files(path), key=lambda file: file.name)
    except UnicodeEncodeError:
        raise AfterimageError(f"the path {shown(path)} is not UTF-8; rename it") from None
    except OSError as error:
        raise AfterimageError(
            f"cannot read {visible(str(error.filename))}: {error.strerror}"
        ) from None
    files = [one for one in found if path.is_file() or not one.name.endswith(_DESCRIPTION)]
    if not files:
        raise AfterimageError(f"{shown(path)} has no files yet; land it once it has some")
    formats: dict[str, File] = {}
    # An empty file may be one that is being written, and shows no format.
    for file in [file for file in files if file.size] or files:
        formats.setdefault(_format(file), file)
    if len(formats) > 1:
        examples = ", ".join(f"{name} ({visible(file.name)})" for name, file in formats.items())
        raise AfterimageError(
            f"{shown(path)} has files of several formats: {examples}; put the files of each"
            " format into a folder of their own"
        )
    _check_folders(path, files)
    return Landing(path, next(iter(formats)), tuple(files), len(files) < len(found))


def _files(path: Path) -> list[File]:
    if not path.exists():
        raise AfterimageError(f"{shown(path)} does not exist; give an existing file or folder")
    if path.is_file():
        return [_file(path, path.name)]
    found = []
    for folder, folders, names in os.walk(path, onerror=_stop, followlinks=True):
        for mark, lake in _LAKES.items():
            if mark in folders:
                raise AfterimageError(
                    f"{shown(Path(folder))} is a {lake} table, whose files hold deleted rows too;"
                    f" create a table for it in the catalog (using {lake} location '…')"
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
        beginning = opened.read(64)
    name = file.path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    # A text may begin with the word: `ORCID,name`. It has no bytes below that of a tab.
    is_text = min(beginning, default=9) >= 9 and any(
        name.endswith(one.endings) for one in FORMATS if not one.magic
    )
    for one in FORMATS:
        if one.magic and beginning.startswith(one.magic) and not is_text:
            return one.name
    for one in FORMATS:
        if name.endswith(one.endings):
            if one.magic:
                raise AfterimageError(
                    f"{shown(file.path)} is not valid {one.name}, despite its name; if it is still"
                    " being written, land it again when it is complete"
                )
            return one.name
    known = ", ".join(ending for one in FORMATS for ending in one.endings)
    raise AfterimageError(
        f"{shown(file.path)} has a format that cannot be landed. Allowed: {known}"
        f" (text files also as {' or '.join(_PACKED)})"
    )


def _check_folders(path: Path, files: list[File]) -> None:
    # Spark would silently skip the files in a folder that is not a partition.
    columns = {tuple(part.partition("=")[0] for part in file.partitions) for file in files}
    for file in files:
        if file.dates and not _is_date(file.dates):
            raise AfterimageError(
                f"{shown(path)} has the folder {visible('/'.join(file.dates))}, which is neither a"
                " partition (column=value) nor a date (2024/01/31, 20240131); if each folder is a"
                f" table, land them as {shown(path)}/*"
            )
    if len(columns) > 1:
        several = " and ".join(visible("/".join(one)) or "none" for one in sorted(columns))
        raise AfterimageError(
            f"{shown(path)} has files with different partition columns: {several};"
            " put the files of each kind into a folder of their own"
        )


def _is_date(folders: tuple[str, ...]) -> bool:
    """Whether folders are a date, from its year alone to its hour, in any order of its parts.

    Qlik's change data partitioning names them after a period: `20240229T000000_20240301T000000`.
    """
    if re.fullmatch("[0-9]{8}T[0-9]{6}_[0-9]{8}T[0-9]{6}", "/".join(folders)):
        return True
    digits = "".join(part.zfill(2) for part in re.split("[-_/]", "/".join(folders)))
    return re.fullmatch("(?=.{4,10}$)([0-9]{2})*(19|20)([0-9]{2})+", digits) is not None
