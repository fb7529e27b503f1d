"""Writes the files of a project, and leaves them alone once the user has edited them.

The first line of each such file holds a checksum of the rest, which shows whether the file was
edited. Files that several tables share (properties, doc blocks) consist of blocks, one per model,
source or column. In an edited file, missing blocks are added at its end.
"""

from __future__ import annotations

import hashlib
import re
import signal
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.state import state_folder

_SEAL = re.compile(r".*Written by `afterimage` \(([0-9a-f]{8})\).*\n")
_SEALS = {
    ".sql": "{{#- Written by `afterimage` ({}). Once you edit it, it is yours. -#}}\n",
    ".yml": "# Written by `afterimage` ({}). Once you edit it, it is yours.\n",
    ".md": "<!-- Written by `afterimage` ({}). Once you edit it, it is yours. -->\n",
}
# Where a block begins: a model, a table of a source, a doc block.
_MODEL, _TABLE, _DOC = (
    re.compile(rf"^(?={sign})", re.MULTILINE)
    for sign in ("  - name: ", "      - name: ", r"\{% docs ")
)
# What names doc blocks: `doc('customers__fax')`.
_NAMES_DOCS = re.compile(r"\bdoc\s*\(([^)]*)\)")
# What is raised where somebody has written a text of properties in another form.
_OTHER_FORM = (yaml.YAMLError, TypeError, KeyError, IndexError, ValueError, AttributeError)

# What to do about two tables that would be one source.
ANOTHER_NAME = (
    "Land it under a name of its own (afterimage land PATH --as SCHEMA.TABLE), or declare a source"
    " for it"
)


class Refused(AfterimageError):
    """The texts of some tables do not fit into the files.

    Attributes:
        reasons: The place of each of these tables among the given ones -> why.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        """Take the reasons."""
        self.reasons = reasons
        super().__init__("\n".join(reasons.values()))


@dataclass
class Texts:
    """The texts to write for a table.

    Attributes:
        table: Its name.
        models: Path -> the text of a model.
        blocks: Path -> block -> text, for the files that several tables share: properties, docs.
        heads: Path -> the text before the blocks.
    """

    table: str
    models: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A file and its new text.

    Attributes:
        old: Its present text; none if it does not exist.
        new: Its new text.
        state: `new`, `same`, `behind` (not edited, but outdated), `added` (edited, and blocks are
            added), or `edited` (edited and different, and left alone).
    """

    path: str
    old: str | None
    new: str
    state: str


def changes(
    folder: Path,
    texts: Sequence[Texts],
    *,
    whole: bool,
    still_read: Mapping[str, Collection[str]] | None = None,
    properties: Collection[str] = (),
) -> list[Change]:
    """Return the change of each file, in an order in which dbt can parse after each one.

    A file comes after those that it refers to, and properties after all models.

    Args:
        folder: The project's folder.
        texts: The tables.
        whole: Whether these are all tables, so that shared files hold no other blocks.
        still_read: Path -> the blocks that stay all the same, as what is left refers to them.
        properties: The project's property files. Doc blocks that they name stay.

    Raises:
        Refused: Two of the tables would be one source, or an edited file takes no more.
    """
    models: dict[str, str] = {}
    blocks: dict[str, dict[str, str]] = {}
    heads: dict[str, str] = {}
    refused: dict[int, str] = {}
    texts = _with_each_source_once(texts)
    for place, one in enumerate(texts):
        clash = _clash(one, heads, blocks)
        if clash is not None:
            refused[place] = clash
            continue
        models |= one.models
        for path, own in one.blocks.items():
            blocks.setdefault(path, {}).update(own)
        heads |= one.heads
    found = {path: _change(path, _text(folder / path), text, text) for path, text in models.items()}

    docs = [path for path in blocks if path.endswith(".md")]
    sources = [path for path in blocks if "/_src_" in path]
    others = [path for path in blocks if path not in (*docs, *sources)]
    for path in (*sources, *others):
        old, head, own = _text(folder / path), heads[path], blocks[path]
        lacking = _lacking(path, old, head, own)
        if old is not None and lacking and not _takes(old, head, lacking):
            for place, one in enumerate(texts):
                mine = {name: lacking[name] for name in one.blocks.get(path, ()) if name in lacking}
                if mine:
                    refused[place] = refused.get(place, "") + (
                        f"{path} was edited, so nothing can be added at its end."
                        f" Add {', '.join(mine)} yourself:\n{_joined(mine)}"
                    )
        kept = (still_read or {}).get(path, ()) if whole else None
        found[path] = _shared(path, old, head, own, lacking, kept)
    if refused:
        raise Refused(refused)

    told = [change.new for change in found.values()]
    told += [_text(folder / path) or "" for path in properties if path not in found]
    named = set(re.findall(r"\w+", " ".join(_NAMES_DOCS.findall("\n".join(told)))))
    for path in docs:
        old, head, own = _text(folder / path), heads[path], blocks[path]
        found[path] = _shared(path, old, head, own, _lacking(path, old, head, own), named)
    return [found[path] for path in (*docs, *sources, *models, *others)]


def _with_each_source_once(texts: Sequence[Texts]) -> list[Texts]:
    """Return the texts with each table of a source in one file, the first that has it.

    Tables of two systems may read one table beside their own.
    """
    places: dict[tuple[str, str], str] = {}
    found = []
    for one in texts:
        blocks: dict[str, dict[str, str]] = {}
        heads = dict(one.heads)
        for path, own in one.blocks.items():
            for name, text in own.items():
                # A file of sources is named after its source.
                key = (Path(path).name, name)
                there = places.setdefault(key, path) if "/_src_" in path else path
                blocks.setdefault(there, {})[name] = text
                heads[there] = one.heads[path]
        found.append(replace(one, blocks=blocks, heads=heads))
    return found


def _clash(
    one: Texts, heads: Mapping[str, str], blocks: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Return how the sources of a table would take the place of another table's; none if not."""
    for path in (path for path in one.blocks if "/_src_" in path):
        # A file has one schema for all its tables.
        if heads.get(path, one.heads[path]).lower() != one.heads[path].lower():
            return (
                f"{one.table} and another table have sources of one name and of two schemas in"
                f" {path}. {ANOTHER_NAME}"
            )
        there = blocks.get(path, {})
        for name, block in one.blocks[path].items():
            before, after = _identifier(there.get(name, block)), _identifier(block)
            if before != after:
                return f"{name} in {path} would be both {before} and {after}. {ANOTHER_NAME}"
    return None


def _identifier(block: str) -> str:
    """Return the table that a source's block stands for."""
    [source] = yaml.safe_load(block)
    return str(source.get("identifier", source["name"]))


def _change(path: str, old: str | None, unsealed: str, merged: str) -> Change:
    """Return the change of a file.

    Args:
        path: The file.
        old: Its present text.
        unsealed: Its new text if it was not edited.
        merged: Its new text if it was.
    """
    if old is None or is_sealed(old):
        new = sealed(path, unsealed)
        return Change(path, old, new, "new" if old is None else "same" if old == new else "behind")
    if path.endswith(".sql"):
        merged = old
    is_same = _body(old).strip("\n") == unsealed.strip("\n")
    return Change(path, old, merged, "added" if merged != old else "same" if is_same else "edited")


def _shared(
    path: str,
    old: str | None,
    head: str,
    own: Mapping[str, str],
    lacking: Mapping[str, str],
    kept: Collection[str] | None,
) -> Change:
    """Return the change of a shared file.

    Args:
        path: The file.
        old: Its present text.
        head: The text before the blocks.
        own: The blocks to write.
        lacking: Those that go to its end if it was edited.
        kept: Which other blocks stay; none if all do.
    """
    others = there = _blocks(path, old or "")
    if kept is not None:
        stay = {name for name in there if name in kept and name not in own}
        # In the places that they have.
        others = {name: text for name, text in there.items() if stay and name in {*stay, *own}}
    return _change(path, old, head + _joined({**others, **own}), _added(old or "", lacking))


def _lacking(path: str, old: str | None, head: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the blocks that are not in a file which was edited."""
    if old is None or is_sealed(old):
        return {}
    there = _blocks(path, old) if path.endswith(".md") else _names(old, head)
    return {name: text for name, text in own.items() if name not in there}


def _added(old: str, lacking: Mapping[str, str]) -> str:
    return old.rstrip("\n") + "\n\n" + _joined(lacking) if lacking else old


def _joined(blocks: Mapping[str, str]) -> str:
    return "\n".join(text.strip("\n") + "\n" for text in blocks.values())


def _blocks(path: str, text: str) -> dict[str, str]:
    """Return the blocks of a shared file by name."""
    if path.endswith(".md"):
        return {block.split()[2]: block for block in _DOC.split(text)[1:]}
    found = {}
    for block in (_TABLE if "/_src_" in path else _MODEL).split(text)[1:]:
        # The user may have written one differently; what is added is checked later.
        with suppress(yaml.YAMLError, TypeError, KeyError):
            found[str(yaml.safe_load(block)[0]["name"])] = block
    return found


def _listed(properties: Any, head: str) -> Any:
    """Return the list that has the blocks: the models, or the tables of the head's source."""
    wanted = yaml.safe_load(head)
    if "sources" not in wanted:
        return properties["models"]
    [source] = wanted["sources"]
    return [one for one in properties["sources"] if one["name"] == source["name"]][-1]["tables"]


def _names(text: str, head: str) -> set[str]:
    """Return the names of the blocks in a text of properties, however somebody has written it."""
    try:
        return {str(one["name"]) for one in _listed(yaml.safe_load(text), head)}
    except _OTHER_FORM:
        return set()


def _takes(old: str, head: str, lacking: Mapping[str, str]) -> bool:
    """Whether blocks at the end of a text of properties are at the end of their list."""
    try:
        before, after = yaml.safe_load(old), yaml.safe_load(_added(old, lacking))
        _listed(before, head).extend(yaml.safe_load(_joined(lacking)))
        return bool(after == before)
    except _OTHER_FORM:
        return False


def sealed(path: str, text: str) -> str:
    """Return a text with the line before it that says who wrote it, and its checksum."""
    body = text.strip("\n") + "\n"
    return _SEALS[Path(path).suffix].format(_checksum(body)) + body


def is_sealed(text: str) -> bool:
    """Whether a command wrote a file and nobody has edited it."""
    line = _SEAL.match(text)
    return line is not None and line[1] == _checksum(text[line.end() :])


def written_by_us(folder: Path, models: str) -> Iterator[str]:
    """Yield the models that commands wrote, edited or not.

    Args:
        folder: The project's folder.
        models: The folder of the models in it.
    """
    for path in sorted((folder / models).rglob("*.sql")):
        if _SEAL.match(_text(path) or ""):
            yield path.relative_to(folder).as_posix()


def _body(text: str) -> str:
    line = _SEAL.match(text)
    return text[line.end() :] if line else text


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def differences(change: Change) -> str:
    """Return in words what a file lacks or has too much, or that somebody has edited it."""
    if change.state == "new":
        return "is missing"
    if change.state == "edited":
        return "was edited by hand, and is left alone"
    old, new = change.old or "", change.new
    if change.path.endswith(".sql"):
        keys = [re.search(r"unique_key=(\[.*\])", text) for text in (old, new)]
        if keys[0] and keys[1] and keys[0][1] != keys[1][1]:
            return f"the key changed: {keys[0][1]} is now {keys[1][1]}"
        return "differs"
    before, after = _columns(old), _columns(new)
    said = [f"{name} is new" for name in after if name not in before]
    said += [f"{name} is gone" for name in before if name not in after]
    for name in (name for name in after if name in before):
        said += [f"column {c} of {name} appeared" for c in after[name] if c not in before[name]]
        said += [f"column {c} of {name} is gone" for c in before[name] if c not in after[name]]
    return ", ".join(said) or "differs"


def _columns(text: str) -> dict[str, list[str]]:
    """Return the columns of each model or source of a property file; of docs, the blocks."""
    said = yaml.safe_load(text) if text and not text.startswith("<!--") else None
    if not isinstance(said, dict):
        return {name: [] for name in re.findall(r"\{% docs (\w+) %\}", text)}
    found = {}
    for one in said.get("models") or []:
        found[one["name"]] = [column["name"] for column in one.get("columns") or []]
    for one in said.get("sources") or []:
        for table in one["tables"]:
            columns = [column["name"] for column in table.get("columns") or []]
            found[f"{one['name']}.{table['name']}"] = columns
    return found


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files: all of them or, where one cannot be written, none.

    A process that is killed meanwhile leaves the first few of them, each of them whole.

    Args:
        folder: What the paths start from.
        files: Path to text, in the order in which to write them.

    Raises:
        AfterimageError: A file cannot be written.
    """
    undo: list[tuple[Path, str | None]] = []
    with _signals_wait():
        try:
            # A rename is atomic only within one filesystem.
            state = state_folder(folder)
            place = state if state.stat().st_dev == folder.stat().st_dev else folder
            with tempfile.TemporaryDirectory(prefix=".init-", dir=place) as drafts:
                for number, text in enumerate(files.values()):
                    Path(drafts, str(number)).write_text(text, encoding="utf-8")
                for number, path in enumerate(map(folder.joinpath, files)):
                    for parent in reversed(path.parents):
                        if not parent.is_dir():
                            parent.mkdir()
                            undo.append((parent, None))
                    undo.append((path, _text(path)))
                    Path(drafts, str(number)).replace(path)
        except BaseException as error:
            _take_back(undo)
            if isinstance(error, OSError):
                where = error.filename2 or error.filename
                raise AfterimageError(f"nothing was written: {where}: {error.strerror}") from None
            raise


def _take_back(undo: Sequence[tuple[Path, str | None]]) -> None:
    for path, text in reversed(undo):
        if path.is_dir():
            path.rmdir()
        elif text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let the signals that end a process wait until the block is done."""
    came: list[int] = []
    ending = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in ending}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)
        for number in came:
            signal.raise_signal(number)
