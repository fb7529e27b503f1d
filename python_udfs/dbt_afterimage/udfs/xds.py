"""XDS documents: the XML with which Identity Manager's Publisher channel reports a change.

A pure function without a Spark import; `registry` gives it its SQL name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_LENGTH = 50_000_000  # characters of JSON; attributes may hold pictures

EVENTS = ("add", "modify", "delete")
VALUE_TYPES = ("string", "octet")

# XML 1.0, "Characters": a document cannot hold any other character, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE = {**_TEXT, '"': "&quot;", "\t": "&#9;", "\n": "&#10;"}


class XdsError(ValueError):
    """A change that a document cannot hold; the message says why."""


def xds_document(change: Mapping[str, Any] | str | None) -> dict[str, str] | None:
    """Write the XDS document of one change.

    Args:
        change: A mapping or the text of a JSON object with `event` (`add`, `modify` or `delete`),
            `class_name`, `association`, and `attributes`: a list of objects with `name`, `type`
            (`string` or `octet`, whose value is Base64), `remove_all` (true: all values of the
            attribute are removed first), `remove` (the value to remove) and `add` (the new value).
            Missing or null items are not written; an attribute with nothing to write is left out.

    Returns:
        `document`: the XML on one line. `None` for NULL.

    Raises:
        XdsError: A value holds a character that XML cannot hold, or `change` is malformed.

    Example:
        >>> xds_document({"event": "delete", "class_name": "usr", "association": "idu=1"})
        {'document': '<delete class-name="usr"><association>idu=1</association></delete>'}
    """
    if change is None:
        return None
    if isinstance(change, str):
        change = _from_json(change)
    if not isinstance(change, Mapping):
        raise XdsError("a change is a mapping")
    event = change.get("event")
    if event not in EVENTS:
        raise XdsError(f"event must be one of {list(EVENTS)}, got {event!r}")
    attributes = change.get("attributes")
    if attributes is None:
        attributes = []
    if not isinstance(attributes, list) or not all(isinstance(a, Mapping) for a in attributes):
        raise XdsError("attributes must be a list of mappings")
    class_name = _escaped(change.get("class_name"), "the class name", _ATTRIBUTE)
    association = _escaped(change.get("association"), "the association", _TEXT)
    body = "" if event == "delete" else "".join(_attribute(event, a) for a in attributes)
    return {
        "document": f'<{event} class-name="{class_name}"><association>{association}</association>'
        f"{body}</{event}>"
    }


def _from_json(text: str) -> Any:
    if len(text) > MAX_LENGTH:
        raise XdsError(f"{len(text)} characters of JSON, but {MAX_LENGTH} are the most")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise XdsError(f"the change is no JSON object: {error}") from None


def _attribute(event: str, attribute: Mapping[str, Any]) -> str:
    label = f"attribute {attribute.get('name')!r}"
    name = _escaped(attribute.get("name"), "the name of an attribute", _ATTRIBUTE)
    kind = attribute.get("type")
    if kind not in VALUE_TYPES:
        raise XdsError(f"{label}: type must be one of {list(VALUE_TYPES)}, got {kind!r}")

    def value(text: Any) -> str:
        return f'<value type="{kind}">{_escaped(text, label, _TEXT)}</value>'

    content = ""
    if event == "modify":
        if attribute.get("remove_all"):
            content += "<remove-all-values/>"
        elif attribute.get("remove") is not None:
            content += f"<remove-value>{value(attribute['remove'])}</remove-value>"
        if attribute.get("add") is not None:
            content += f"<add-value>{value(attribute['add'])}</add-value>"
    elif attribute.get("add") is not None:
        content += value(attribute["add"])
    return f'<{event}-attr attr-name="{name}">{content}</{event}-attr>' if content else ""


def _escaped(text: Any, label: str, escapes: dict[str, str]) -> str:
    if not isinstance(text, str):
        raise XdsError(f"{label} must be text, got {type(text).__name__}")
    wrong = _NOT_XML.search(text)
    if wrong is not None:
        raise XdsError(
            f"{label}: XML has no place for the character U+{ord(wrong.group()):04X}"
            f" at position {wrong.start() + 1}"
        )
    escaped: str = text
    for character, escape in escapes.items():  # the ampersand comes first
        escaped = escaped.replace(character, escape)
    return escaped
