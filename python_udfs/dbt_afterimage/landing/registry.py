"""Keeps the schemas of a registry in a table, so that models can read the messages in Avro.

They come from the registry itself, asked for the ids that occur in landed messages, or from its
topic, once that has landed. Each raw table remembers up to which offsets it was looked through.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Mapping
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

        def schemas(new: str) -> Iterable[tuple[int, str]]:
            ids = " union ".join(
                f"select cast(conv(hex(substring({column}, 2, 4)), 16, 10) as bigint) as id from"
                f" {new} and startswith({column}, X'00') and length({column}) >= 5"
                for column in ("key", "value")
            )
            known = f"select id from {self._name}"
            rows = self._project.rows(f"select id from ({ids}) where id not in ({known})")
            for number in sorted(int(row[0]) for row in rows):
                if text := _asked(url, number, broker, notes):
                    yield number, text

        return Found(self._add(table, url, schemas), notes)

    def add_from_topic(self, table: str) -> Found:
        """Take the schemas from a landed topic of a registry, usually `_schemas`.

        Args:
            table: The raw table.
        """

        def schemas(new: str) -> Iterable[tuple[int, str]]:
            text = "cast(value as string)"
            rows = self._project.rows(
                "select id, max(`schema`) from ("
                f"select cast(get_json_object({text}, '$.id') as int) as id,"
                f" get_json_object({text}, '$.schema') as `schema` from {new}"
                f" and coalesce(get_json_object({text}, '$.schemaType'), 'AVRO') = 'AVRO')"
                f" where `schema` is not null and id not in (select id from {self._name})"
                " group by id order by id"
            )
            return [(int(number), str(text)) for number, text in rows]

        return Found(self._add(table, f"the topic in {self._schema}.{table}", schemas), [])

    def _add(
        self, table: str, origin: str, schemas: Callable[[str], Iterable[tuple[int, str]]]
    ) -> int:
        """Add the schemas that rows show which were not looked through yet.

        Args:
            table: The raw table.
            origin: Where the schemas come from.
            schemas: Returns them, for the end of a query: `TABLE where CONDITION`.
        """
        identity = self._ready(origin)
        raw = Target(self._project, f"{quote(self._schema)}.{quote(table)}", table)
        looked = _looked(raw, identity)
        ends = {
            str(number): int(end)
            for number, end in raw.rows(
                "select `partition`, max(`offset`) + 1 from {} where "
                + _unseen(looked)
                + " group by `partition`"
            )
        }
        if not ends:
            return 0
        found = list(schemas(f"{raw.name} where {_unseen(looked)}"))
        if found:
            rows = ", ".join(f"({number}, {literal(text)})" for number, text in found)
            self._target.insert("`id`, `schema`", f"values {rows}")
        text = json.dumps({"of": identity, "ends": {**looked, **ends}})
        raw.set_properties({_LOOKED: text.encode().hex()})
        return len(found)

    def _ready(self, origin: str) -> str:
        """Make the table if it is not there, and return its identity."""
        if self._project.columns_of(self._name) is None:
            properties = {_IDENTITY: uuid.uuid4().hex, _ORIGIN: origin.encode().hex()}
            columns = ", ".join(f"{quote(one.name)} {one.type}" for one in COLUMNS)
            self._project.rows(
                f"create table {self._name} ({columns}) using {self._project.table_format}"
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


def _looked(raw: Target, identity: str) -> dict[str, int]:
    text = raw.properties().get(_LOOKED)
    said = json.loads(bytes.fromhex(text)) if text else {}
    # A table of schemas that was dropped and made anew has none of them.
    return dict(said["ends"]) if said.get("of") == identity else {}


def _unseen(looked: Mapping[str, int]) -> str:
    """Return the condition for the rows that were not looked through yet."""
    if not looked:
        return "true"
    seen = " or ".join(f"(`partition` = {n} and `offset` < {end})" for n, end in looked.items())
    return f"not ({seen})"


def _asked(url: str, number: int, broker: Broker, notes: list[str]) -> str | None:
    """Return a schema; none, with a note, if the registry has none that can be read."""
    try:
        said = _get(f"{url}/schemas/ids/{number}", broker.options.get(_AUTH))
    except urllib.error.HTTPError as error:
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
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if auth:
        # Not for another host that the registry may name.
        value = base64.b64encode(auth.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {value}")
    with urllib.request.urlopen(request, timeout=seconds()) as answer:
        said = json.loads(answer.read())
    if not isinstance(said, dict) or "schema" not in said:
        raise ValueError("the answer has no schema")
    return said


def _code(error: urllib.error.HTTPError) -> Any:
    try:
        return json.loads(error.read()).get("error_code")
    except (ValueError, AttributeError):
        return None
