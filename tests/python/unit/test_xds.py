"""XDS documents: those of the manual, verbatim, and well-formed ones of any values."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_afterimage.udfs.xds import XdsError, xds_document

# Every character that XML 1.0 has a place for.
characters = st.characters(exclude_categories=["Cs"]).filter(
    lambda c: c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff")
)
texts = st.text(characters)
attributes = st.fixed_dictionaries(
    {
        "name": texts,
        "type": st.sampled_from(["string", "octet"]),
        "remove_all": st.booleans(),
        "remove": st.none() | texts,
        "add": st.none() | texts,
    }
)


def written(change: dict[str, Any]) -> str:
    result = xds_document(change)
    assert result is not None
    assert xds_document(json.dumps(change)) == result
    return result["document"]


def attribute(name: str, kind: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **values}


def test_every_way_to_report_a_value() -> None:
    change = {
        "event": "modify",
        "class_name": "usr",
        "association": "idu=1,table=usr,schema=indirect",
        "attributes": [
            attribute("a", "string", remove="Jack", add="John"),
            attribute("b", "octet", remove_all=True, remove="ignored", add="u7s="),
            attribute("c", "string", remove="Jack"),
            attribute("d", "string", add=""),
            attribute("e", "string", remove_all=True),
            attribute("f", "string"),
        ],
    }
    assert written(change) == (
        '<modify class-name="usr"><association>idu=1,table=usr,schema=indirect</association>'
        '<modify-attr attr-name="a"><remove-value><value type="string">Jack</value></remove-value>'
        '<add-value><value type="string">John</value></add-value></modify-attr>'
        '<modify-attr attr-name="b"><remove-all-values/>'
        '<add-value><value type="octet">u7s=</value></add-value></modify-attr>'
        '<modify-attr attr-name="c"><remove-value><value type="string">Jack</value></remove-value>'
        "</modify-attr>"
        '<modify-attr attr-name="d"><add-value><value type="string"></value></add-value>'
        "</modify-attr>"
        '<modify-attr attr-name="e"><remove-all-values/></modify-attr>'
        "</modify>"
    )


def test_an_add_reports_only_new_values() -> None:
    change = {
        "event": "add",
        "class_name": "usr",
        "association": "idu=1",
        "attributes": [
            attribute("a", "string", remove_all=True, remove="Jack", add="John"),
            attribute("b", "string", remove="Jack"),
        ],
    }
    assert written(change) == (
        '<add class-name="usr"><association>idu=1</association>'
        '<add-attr attr-name="a"><value type="string">John</value></add-attr></add>'
    )


def test_a_delete_reports_no_values() -> None:
    change = {
        "event": "delete",
        "class_name": "usr",
        "association": "idu=1",
        "attributes": [attribute("a", "string", add="x")],
    }
    assert written(change) == ('<delete class-name="usr"><association>idu=1</association></delete>')


@given(texts, texts, st.lists(attributes, max_size=4))
def test_a_document_holds_any_values(
    class_name: str, association: str, given_attributes: list[dict[str, Any]]
) -> None:
    change = {
        "event": "modify",
        "class_name": class_name,
        "association": association,
        "attributes": given_attributes,
    }
    root = ElementTree.fromstring(written(change))
    assert root.get("class-name") == class_name
    assert (root[0].text or "") == association
    reported = [
        a
        for a in given_attributes
        if a["remove_all"] or a["remove"] is not None or a["add"] is not None
    ]
    assert [child.get("attr-name") for child in root[1:]] == [a["name"] for a in reported]
    for child, expected in zip(root[1:], reported, strict=True):
        values = {part.tag: part.find("value") for part in child}
        assert ("remove-all-values" in values) == expected["remove_all"]
        removed = None if expected["remove_all"] else expected["remove"]
        for tag, text in (("remove-value", removed), ("add-value", expected["add"])):
            assert (tag in values) == (text is not None)
            value = values.get(tag)
            if value is not None:
                assert (value.get("type"), value.text or "") == (expected["type"], text)


@pytest.mark.parametrize(
    "character", ["\0", "\x01", "\x08", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"]
)
@pytest.mark.parametrize("place", ["class_name", "association", "name", "add", "remove"])
def test_characters_that_xml_does_not_allow_are_refused(character: str, place: str) -> None:
    change: dict[str, Any] = {"event": "modify", "class_name": "usr", "association": "idu=1"}
    fields: dict[str, Any] = {"name": "a", "type": "string", "add": "x"}
    (fields if place in ("name", "add", "remove") else change)[place] = f"ab{character}"
    with pytest.raises(XdsError, match=f"U\\+{ord(character):04X} at position 3"):
        xds_document({**change, "attributes": [fields]})


@pytest.mark.parametrize(
    "change",
    [
        "",
        "[]",
        "[" * 100_000,
        {},
        {"event": "rename", "class_name": "usr", "association": "a=1"},
        {"event": "add", "association": "a=1"},
        {"event": "add", "class_name": "usr"},
        {"event": "add", "class_name": "usr", "association": "a=1", "attributes": {}},
        {"event": "add", "class_name": "usr", "association": "a=1", "attributes": [1]},
        {"event": "add", "class_name": "u", "association": "a", "attributes": [{"name": "a"}]},
        {
            "event": "add",
            "class_name": "u",
            "association": "a",
            "attributes": [{"name": "a", "type": "string", "add": 1}],
        },
    ],
)
def test_an_event_that_is_not_a_change_is_refused(change: Any) -> None:
    with pytest.raises(XdsError):
        xds_document(change)


def test_null_is_not_a_change() -> None:
    assert xds_document(None) is None
