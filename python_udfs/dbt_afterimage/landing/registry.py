"""Keeps the schemas of a registry in a table, so that models can read the messages in Avro.

They come from the registry itself, asked for the ids that occur in landed messages, or from its
topic, once that has landed. Each raw table remembers up to which offsets it was looked through.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.broker import OPTIONS, REGISTRY, Broker, seconds
from dbt_afterimage.landing.memory import Target, assignments
from dbt_afterimage.runtime.project import REGISTRY_SCHEMAS, Column, Project, literal, quote
from dbt_afterimage.text import visible

COLUMNS = (Column("id", "int"), Column("schema", "string"))

_AUTH = f"{REGISTRY}basic.auth"
# Of the table of schemas: its identity, which a table made anew has not, and where they come from.
_IDENTITY, _ORIGIN = "afterimage.schemas", "afterimage.registry"
# Of a raw table: that identity, and the offsets up to which it was looked through.
_LOOKED = "afterimage.looked"
_NO_SCHEMA = 40403


@dataclass(frozen=True)
class Found:
    """What came of looking for schemas.

    Attributes:
        added: How many schemas are new.
        notes: What to tell beside.
    """

    added: int
    notes: list[str]


def check_url(url: str) -> str:
    """Return the URL of a registry without a slash at its end.

    Raises:
        AfterimageError: It is none, or has a password.
    """
    if "@" in url:
        raise AfterimageError(
            f"--registry has no user and no password: write {_AUTH}=USER:PASSWORD into the file"
            f" that {OPTIONS} names"
        )
    if not re.fullmatch(r"https?://[^/\s?#]+[^\s?#]*", url):
        raise AfterimageError(f"--registry must be http(s)://HOST:PORT. Got: {visible(url)}")
    return url.rstrip("/")


class Schemas:
    """The table of the schemas that occur in the raw tables of one schema of the catalog."""

    def __init__(self, project: Project, schema: str) -> None:
        """Name the table; nothing is asked yet.

        Args:
            project: The dbt project.
            schema: The schema of the raw tables.
        """
        self._project = project
        self.shown = f"{schema}.{REGISTRY_SCHEMAS}"
        self._schema, self._name = schema, f"{quote(schema)}.{quote(REGISTRY_SCHEMAS)}"
        self._target = Target(project, self._name, self.shown)

    def add_from_registry(self, table: str, url: str, broker: Broker) -> Found:
        """Ask a registry for the schemas of landed messages that are not known yet.

        Args:
            table: The raw table.
            url: The registry.
            broker: The broker, whose options have those of the registry.

        Raises:
            AfterimageError: The registry does not answer, or refuses.
        """
        notes: list[str] = []

        def schemas(new: str, waiting: Collection[int]) -> Iterator[tuple[int, str | None]]:
            ids = " union ".join(
                f"select cast(conv(hex(substring({column}, 2, 4)), 16, 10) as bigint) as id from"
                f" {new} and startswith({column}, X'00') and length({column}) >= 5"
                for column in ("key", "value")
            )
            known = f"select id from {self._name}"
            # No registry has greater numbers: such a message is damaged, and waits for nothing.
            rows = self._project.rows(
                f"select id from ({ids}) where id < 2147483648 and id not in ({known})"
            )
            for number in sorted({*waiting, *(int(row[0]) for row in rows)}):
                yield number, _asked(url, number, broker, notes)

        return Found(self._add(table, url, schemas), notes)

    def add_from_topic(self, table: str) -> Found:
        """Take the schemas from a landed topic of a registry, usually `_schemas`.

        Args:
            table: The raw table.
        """

        def schemas(new: str, _: Collection[int]) -> Iterator[tuple[int, str | None]]:
            text = "cast(value as string)"
            rows = self._project.rows(
                "select id, max(`schema`) from ("
                f"select cast(get_json_object({text}, '$.id') as int) as id,"
                f" get_json_object({text}, '$.schema') as `schema` from {new}"
                f" and coalesce(get_json_object({text}, '$.schemaType'), 'AVRO') = 'AVRO')"
                f" where `schema` is not null and id not in (select id from {self._name})"
                " group by id order by id"
            )
            yield from ((int(number), str(text)) for number, text in rows)

        return Found(self._add(table, f"the topic in {self._schema}.{table}", schemas), [])

    def _add(
        self,
        table: str,
        origin: str,
        schemas: Callable[[str, Collection[int]], Iterator[tuple[int, str | None]]],
    ) -> int:
        """Add the schemas that rows show which were not looked through yet.

        Args:
            table: The raw table.
            origin: Where the schemas come from.
            schemas: Returns ids with their schemas, or none where one is still missing. It gets the
                end of a query, `TABLE where CONDITION`, and the ids that were missing before.
        """
        identity = self._ready(origin)
        raw = Target(self._project, f"{quote(self._schema)}.{quote(table)}", table)
        looked = _Looked.of(raw, identity)
        unseen = looked.unseen()
        ends = {
            str(number): int(end)
            for number, end in raw.rows(
                "select `partition`, max(`offset`) + 1 from {} where "
                + unseen
                + " group by `partition`"
            )
        }
        if not ends and not looked.waiting:
            return 0
        found = list(schemas(f"{raw.name} where {unseen}", looked.waiting))
        there = [(number, text) for number, text in found if text is not None]
        if there:
            # Spark 4 allows no functions in VALUES.
            rows = ", ".join(f"struct({number}, {literal(text)})" for number, text in there)
            self._target.insert("`id`, `schema`", f"select inline(array({rows}))")
        waiting = [number for number, text in found if text is None]
        _Looked(identity, {**looked.ends, **ends}, waiting).keep(raw)
        return len(there)

    def _ready(self, origin: str) -> str:
        """Make the table if it is not there, and return its identity."""
        if self._project.columns_of(self._name) is None:
            properties = {_IDENTITY: uuid.uuid4().hex, _ORIGIN: origin.encode().hex()}
            columns = ", ".join(f"{quote(one.name)} {one.type}" for one in COLUMNS)
            file_format = self._project.format_in(self._project.catalog)
            # A run that lands another topic may make it at the same moment.
            self._project.rows(
                f"create table if not exists {self._name} ({columns}) using {file_format}"
                f" tblproperties ({assignments(properties)})"
            )
        found = self._target.properties()
        if _IDENTITY not in found:
            raise AfterimageError(
                f"{self.shown} exists and was not made by afterimage land; rename it"
            )
        other = bytes.fromhex(found[_ORIGIN]).decode()
        if other != origin:
            raise AfterimageError(
                f"{self.shown} has the schemas of {visible(other)}, and ids of two registries are"
                f" not the same; drop the table to read those of {visible(origin)}"
            )
        return found[_IDENTITY]


def is_topic_of_registry(project: Project, relation: str) -> bool:
    """Whether a landed topic is the one in which a registry keeps its schemas.

    Args:
        project: The dbt project.
        relation: The raw table, as in SQL.
    """
    [[found]] = project.rows(
        "select count_if(get_json_object(cast(key as string), '$.keytype') = 'SCHEMA') > 0"
        f" from (select key from {relation} where key is not null limit 100)"
    )
    return bool(found)


@dataclass(frozen=True)
class _Looked:
    """What a raw table remembers of having been looked through.

    Attributes:
        identity: That of the table of schemas. One that was made anew has none of them.
        ends: Partition -> the offset up to which it was looked through.
        waiting: The ids that the registry did not have.
    """

    identity: str
    ends: Mapping[str, int]
    waiting: Collection[int]

    @classmethod
    def of(cls, raw: Target, identity: str) -> _Looked:
        text = raw.properties().get(_LOOKED)
        said = json.loads(bytes.fromhex(text)) if text else {}
        if said.get("of") != identity:
            return cls(identity, {}, [])
        return cls(identity, said["ends"], said["waiting"])

    def keep(self, raw: Target) -> None:
        said = {"of": self.identity, "ends": self.ends, "waiting": self.waiting}
        raw.set_properties({_LOOKED: json.dumps(said).encode().hex()})

    def unseen(self) -> str:
        """Return the condition for the rows that were not looked through yet."""
        if not self.ends:
            return "true"
        seen = " or ".join(
            f"(`partition` = {number} and `offset` < {end})" for number, end in self.ends.items()
        )
        return f"not ({seen})"


def _asked(url: str, number: int, broker: Broker, notes: list[str]) -> str | None:
    """Return a schema; none, with a note, if the registry has none that can be read.

    Args:
        url: The registry.
        number: The schema's id.
        broker: The broker, whose options have those of the registry.
        notes: Takes what to tell.
    """
    # Importing it takes a while, which commands without a registry need not spend.
    from urllib.error import HTTPError

    try:
        said = _get(f"{url}/schemas/ids/{number}", broker.options.get(_AUTH))
    except HTTPError as error:
        if error.code == 404 and _code(error) == _NO_SCHEMA:
            notes.append(f"{url} has no schema with the id {number}: its messages wait")
            return None
        remedy = ""
        if error.code in (401, 403):
            remedy = f"; check {_AUTH} in the file that {OPTIONS} names"
        raise AfterimageError(f"{url} answers {error.code} {error.reason}{remedy}") from None
    except (OSError, ValueError) as error:
        why = broker.hidden(str(getattr(error, "reason", error)))
        raise AfterimageError(f"{url} does not answer as a registry does: {why}") from None
    kind = said.get("schemaType") or "AVRO"
    if kind != "AVRO" or said.get("references"):
        what = f"is {visible(str(kind))}" if kind != "AVRO" else "refers to others"
        notes.append(f"the schema with the id {number} {what}, which is not read")
        return None
    return str(said["schema"])


def _get(url: str, auth: str | None) -> dict[str, Any]:
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Accept": "application/json"})
    if auth:
        # Not for another host that the registry may name.
        value = base64.b64encode(auth.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {value}")
    with urlopen(request, timeout=seconds()) as answer:
        said = json.loads(answer.read())
    if not isinstance(said, dict) or "schema" not in said:
        raise ValueError("the answer has no schema")
    return said


def _code(error: Any) -> Any:
    try:
        return json.loads(error.read()).get("error_code")
    except (ValueError, AttributeError):
        return None
