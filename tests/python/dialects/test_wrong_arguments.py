"""An argument of a source's macro that is wrong is named, with what it must be."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from conftest import Lake, Project, relation
from dialect_db2 import DB2_HEADER
from dialect_netiq import LOG
from dialect_openedge import CHANGE_COLUMNS
from dialect_qlik import HEADER
from dialect_sqlserver import HEADER as SQLSERVER_HEADER
from dialect_sqlserver import LSN_TIMES

CCD = {f"IBMSNAP_{name}": "string" for name in ("COMMITSEQ", "INTENTSEQ", "OPERATION")}
DMS = {"Op": "string", "id": "string", "value": "int", "BI_id": "string", "change_seq": "string"}
QLIK = HEADER | {f"c{number:02}": "string" for number in range(1, 11)}

# The landed tables that the calls name.
TABLES: dict[str, dict[str, str]] = {
    "wrong_plain": {"id": "int", "value": "string"},
    "wrong_numbers": {"value": "int", "payload": "string"},
    "wrong_ct": QLIK,
    "wrong_led_ct": {"_landed_by": "string", **QLIK},
    "wrong_renamed_log": {"former" if name == "old_value" else name: LOG[name] for name in LOG},
    "wrong_cd": {**DB2_HEADER, "key_no": "int", "v": "int", "Xv": "int"},
    "wrong_text_log": {"OPERATION": "int", "TIME": "timestamp", "PK01": "int", "PK02": "string"},
    "wrong_base": {"no": "int", "lang": "string", "text": "string"},
    "wrong_numbered_base": {"id": "decimal(38,10)", "no": "double"},
    "wrong_ccd": {**CCD, "no": "int"},
    # A trigger writes the next number of a sequence, and 0.
    "wrong_numbered_cd": {**CCD, "IBMSNAP_COMMITSEQ": "bigint", "PROF_KEY": "string"},
    "wrong_small_cd": {**CCD, "IBMSNAP_INTENTSEQ": "decimal(19,0)", "PROF_KEY": "string"},
    "wrong_cdc": {
        **CHANGE_COLUMNS,
        "_Source-Table-Number": "int",
        "changed_fields": "string",
        "Cust-Num": "int",
        "_hidden": "string",
    },
    "wrong_no_operation": {"_Change-Sequence": "bigint", "Cust-Num": "int"},
    "wrong_lsn_ct": {**SQLSERVER_HEADER, "id": "string", "value": "int"},
    "wrong_earlier_ct": {**SQLSERVER_HEADER, "id": "string"},
    "wrong_net_ct": {"__$start_lsn": "binary", "__$operation": "int", "id": "string"},
    "wrong_times": LSN_TIMES,
    "wrong_offsets": {"key": "string", "value": "string", "offset": "bigint"},
    "wrong_dms": {**DMS, "dms_time": "string"},
    "wrong_floats": {"Op": "string", "id": "string", "rank": "double"},
    "wrong_twice": {**DMS, "ar_h_change_seq": "string"},
    "wrong_rates": {"Op": "string", "id": "string", "exchange_seq": "int"},
    "wrong_copies": {"copied_on": "date", "id": "int", "value": "string"},
}

TYPED = "[{'name': 'id', 'type': 'int'}, {'name': 'a', 'type': 'string'}]"
OF_USR = {"relation": "'log'", "unique_key": "['id']", "table": "'usr'", "columns": TYPED}
OF_LOG = {"relation": "{wrong_text_log}", "unique_key": "['no', 'lang']", "base": "{wrong_base}"}
C01_TO_C10 = [f"c{number:02}" for number in range(1, 11)]

# For each macro a call with good arguments; then what is said where some of them are others. In a
# message `…` stands for anything.
WRONG: list[tuple[str, dict[str, str], list[tuple[str, ...]]]] = [
    (
        "qlik_change_table",
        {"relation": "{wrong_plain}", "unique_key": "['c01']"},
        [
            ("is not a Qlik change table: it has no columns with the prefix header__",),
            (
                "is not a Qlik change table: it has none of the columns change_seq,",
                "header_prefix=''",
            ),
            ("`header_prefix` must be a text, empty if", "header_prefix=none"),
        ],
    ),
    (
        # The first column is one of the landing, and no bit of the mask belongs to it.
        "qlik_change_table",
        {"relation": "{wrong_led_ct}", "unique_key": "['c01']"},
        [
            ("does not begin with a header column…`header_columns`",),
            ("does not begin with a header column…`header_columns`", "header_columns=8"),
            ("does not begin with a header column…`header_columns`", f"columns={C01_TO_C10}"),
        ],
    ),
    (
        "qlik_messages",
        {"relation": "{wrong_offsets}", "unique_key": "['ID']", "columns": "['ID']"},
        [
            ("`unique_key` must be a list of column names", "unique_key='ID'"),
            ("`columns` must be a list of {name, type}", "columns='ID'"),
            ("`columns` must be a list … or `metadata` must be given", "columns=none"),
            ("`columns` must be a list of …Got: []", "columns=[]"),
            ("`columns` must be a list", "columns=[{'type': 'int'}]"),
            ("`columns` names a column twice", "columns=['ID', 'id']"),
            (
                "must give ID one of the types … Got: array<int>",
                "columns=[{'name': 'ID', 'type': 'array<int>'}]",
            ),
            ("`table` must be a text", "table=5"),
            ("`value` must be a text", "value=''"),
            (
                "`complete_transactions` must be one of [True, False]. Got: yes",
                "complete_transactions='yes'",
            ),
            ("`hold_back_hours` must be", "hold_back_hours=-1"),
        ],
    ),
    (
        "qlik_messages",
        {"relation": "{wrong_numbers}", "unique_key": "['id']", "columns": TYPED},
        [
            ("`value` must be a column … Got: value int",),
            ("`value` names a column that does not exist… Got: body", "value='body'"),
            (
                "`unique_key` names a column that does not exist",
                "value='payload'",
                "unique_key=['NO']",
            ),
            ("the columns of … cannot be read", f"relation={relation('not_there')}"),
        ],
    ),
    (
        "netiq_event_log",
        OF_USR,
        [
            ("`unique_key` must be a list of column names, with at least one", "unique_key='id'"),
            ("`unique_key` names a column that does not exist", "unique_key=['b']"),
            ("`table` must be a text that is not empty. Got: None", "table=none"),
            ("each of `columns` must be a {name, type}", "columns=['id']"),
            ("`columns` must be a list of {name, type}, with at least one", "columns=[]"),
            (
                "with one of the types string, boolean, tinyint, smallint, int, bigint, float,"
                " double, date, timestamp, timestamp_ntz, binary, decimal(p,s)."
                " Got: {'name': 'id', 'type': 'int) or (1'}",
                "columns=[{'name': 'id', 'type': 'int) or (1'}]",
            ),
            ("each of `columns` must be a {name, type}", "columns=[{'name': 'id'}]"),
            (
                "`columns` names a column twice",
                "columns=[{'name': 'id', 'type': 'int'}, {'name': 'ID', 'type': 'int'}]",
            ),
            ("`driver_user` must be a text that is not empty. Got: 1", "driver_user=1"),
            ("`allow_loopback` must be one of [True, False]. Got: no", "allow_loopback='no'"),
            ("`future_events` must be one of [True, False]. Got: yes", "future_events='yes'"),
            ("`trim_key_numbers` must be one of [True, False]", "trim_key_numbers='yes'"),
            (
                "`force_username_case` must be one of ['upper', 'lower']. Got: title",
                "force_username_case='title'",
            ),
            ("`statuses` must be a list of texts, with at least one. Got: N", "statuses='N'"),
            ("`precedence` must be one of ['driver', 'logged']. Got: base", "precedence='base'"),
            ("`time_zone` must be a text that is not empty. Got: 1", "time_zone=1"),
            ("`as_of` must be a timestamp in UTC without a zone", "as_of='today'"),
            ("`column_names` must map the standard names", "column_names=['id']"),
            (
                "`column_names` must be one of ['record_id', 'status'",
                "column_names={'seq': 'id'}",
            ),
            ("`column_names` must be a text that is not empty", "column_names={'status': 1}"),
            ("renamed_log has no column 'old_value'", "relation={wrong_renamed_log}"),
            (
                "`columns (of `base`)` names a column that does not",
                "base={wrong_plain}",
                "relation={wrong_renamed_log}",
                "column_names={'old_value': 'former'}",
            ),
            (
                "must have the type of the key column 'id'. In `base` it is decimal(38,10)",
                "base={wrong_numbered_base}",
                "columns=[{'name': 'id', 'type': 'string'}]",
            ),
            (
                "must have the type of the key column 'no'. In `base` it is double",
                "base={wrong_numbered_base}",
                "columns=[{'name': 'no', 'type': 'string'}]",
                "unique_key=['no']",
            ),
        ],
    ),
    (
        "xds_documents",
        {**OF_USR, "schema": "'s'"},
        [
            ("`schema` must be a text that is not empty", "schema=''"),
            (
                "`query_back_inserts` must be one of ['modify', 'add']. Got: insert",
                "query_back_inserts='insert'",
            ),
            ("`table` must be a text", "table=''"),
        ],
    ),
    (
        "db2_change_data",
        {"relation": "{wrong_cd}", "unique_key": "['key_no']"},
        [
            ("`unique_key` must be a list of column names", "unique_key=[]"),
            ("names a column that does not exist. Allowed: ['key_no', 'v']", "unique_key=['ID']"),
            ("Got: w", "columns=['key_no', 'w']"),
            ("up to 4 characters", "before_prefix='BEFORE'"),
            ("`condensed` must be one of [True, False]", "condensed='Y'"),
            ("`complete` must be one of", "complete='Y'"),
            ("`pair_key_changes` must be one of", "pair_key_changes=1.5"),
            ("`time_zone` must be a text", "time_zone=none"),
            ("`uow` must be a relation with", "uow={wrong_cd}"),
            (
                "must have the columns IBMSNAP_COMMITSEQ…Other tools of IBM",
                "relation={wrong_plain}",
            ),
            (
                "IBMSNAP_COMMITSEQ must be bytes or hex digits…Got: bigint",
                "relation={wrong_numbered_cd}",
                "unique_key=['PROF_KEY']",
            ),
            (
                "IBMSNAP_INTENTSEQ must be bytes or hex digits…Got: decimal(19,0)",
                "relation={wrong_small_cd}",
                "unique_key=['PROF_KEY']",
            ),
        ],
    ),
    (
        "db2_text_log",
        OF_LOG,
        [
            ("for each of ['PK01', 'PK02']", "unique_key=['no']"),
            ("not exist. Allowed:", "unique_key=['no', 'x']"),
            ("must have the columns OPE", "relation={wrong_base}", "unique_key=['no']"),
            ("must be a list of column", "unique_key='no'"),
            ("`unique_key` names a column that does not exist", "columns=['no']"),
        ],
    ),
    (
        "index_sync",
        OF_LOG,
        [
            ("`unique_key` has a column with the name", "unique_key=['ACTION']"),
            ("`base` must be the relation", "base=none"),
            ("`synchpoint` and `register` must be left out", "synchpoint='00'"),
            ("`synchpoint` and `register` must be left out", "register={wrong_text_log}"),
            (
                "`register` must be a relation with the columns SYNCHPOINT, CD_NEW_SYNCHPOINT",
                "relation={wrong_ccd}",
                "unique_key=['no']",
                "base=none",
                "register={wrong_text_log}",
            ),
            ("`base` must be left out", "relation={wrong_ccd}", "unique_key=['no']"),
            (
                "20 or 32 hex digits. Got: 12",
                "relation={wrong_ccd}",
                "unique_key=['no']",
                "base=none",
                "synchpoint='12'",
            ),
        ],
    ),
    (
        "openedge_change_table",
        {
            "relation": "{wrong_cdc}",
            "unique_key": "['Cust-Num']",
            "source_table_number": "12",
        },
        [
            ("`unique_key` must be a list of column names, with at least one", "unique_key=[]"),
            ("`unique_key` names a column that does not exist", "unique_key=['no_such']"),
            ("`policy_level` must be one of [None, 0, 1, 2, 3]. Got: 4", "policy_level=4"),
            ("`partition_resets` must be one of ['reject', 'truncate']", "partition_resets='x'"),
            ("`split_order` must be one of ['zero_first', 'zero_last']. Got: x", "split_order='x'"),
            ("`field_map_encoding` must be one of …'hex'…. Got: x", "field_map_encoding='x'"),
            ("`field_map_bit_order` must be one of …. Got: x", "field_map_bit_order='x'"),
            ("`source_table_number` must be a whole number", "source_table_number='12'"),
            ("give `source_table_number`: … Got: none", "source_table_number=none"),
            ("`field_map` must name a column of …wrong_cdc…. Got: x", "field_map='x'"),
            ("must be in the order of the table", "columns=['_hidden', 'Cust-Num']"),
            ("`tracking` must have the columns _Change-Seq", "tracking={wrong_plain}"),
            ("`tracking` must have … and _Operation", "tracking={wrong_no_operation}"),
            ("must have the column _Change-Seq", "relation={wrong_plain}"),
            ("must have the column _Operation. Land it", "relation={wrong_no_operation}"),
            ("the columns of …no_such… cannot be read", f"relation={relation('no_such')}"),
        ],
    ),
    (
        "sqlserver_change_table",
        {"relation": "{wrong_lsn_ct}", "unique_key": "['id']"},
        [
            ("`unique_key` must be a list of column names", "unique_key=[]"),
            ("names a column that does not exist. Allowed: ['id', 'value']", "unique_key=['no']"),
            ("Got: w", "columns=['id', 'w']"),
            ("`time_zone` must be a text that is not empty", "time_zone=''"),
            (
                "`relation` must be a relation with the columns"
                " __$start_lsn, __$seqval, __$operation.",
                "relation={wrong_times}",
            ),
            ("`relation` must have the column __$seqval, which net", "relation={wrong_net_ct}"),
            ("`earlier` must be a relation with the columns", "earlier={wrong_times}"),
            (
                "`lsn_times` must be a relation with the columns start_lsn, tran_end_time. ",
                "lsn_times={wrong_lsn_ct}",
            ),
            (
                "Allowed: ['id']. Got: value",
                "unique_key=['value']",
                "earlier={wrong_earlier_ct}",
            ),
        ],
    ),
    (
        "debezium_messages",
        {"relation": "{wrong_offsets}", "unique_key": "['id']", "columns": TYPED},
        [
            ("`unique_key` must be a list of column names", "unique_key=[]"),
            ("names a column that does not exist. Allowed:", "unique_key=['no']"),
            ("each of `columns` must be a {name, type}", "columns=['id']"),
            ("`columns` must be a list of {name, type}, with at least", "columns=[]"),
            (
                "a column with the encoding json must be a string. Got: id, int",
                "columns=[{'name': 'id', 'type': 'int', 'encoding': 'json'}]",
            ),
            (
                "`encoding` must be one of ['base64', 'hex', 'json', 'text']. Got: x",
                "columns=[{'name': 'id', 'type': 'int', 'encoding': 'x'}]",
            ),
            ("`value` names a column that does not", "value='v'"),
            ("of type string (JSON) or binary", "value='offset'"),
            ("Got: o", "position=['o']"),
            ("`headers` names a column", "headers='h'"),
            (
                "`schemas` must be a relation with the columns id, schema. Got:",
                "schemas={wrong_offsets}",
            ),
            ("`table` must be a text that is not", "table=''"),
            ("`null_is_absent` names a column that", "null_is_absent=['x']"),
            ("`infinity` must be one of ['bound', 'null', 'reject']. Got: x", "infinity='x'"),
            (
                "one of the types string, boolean",
                "columns=[{'name': 'id', 'type': 'time'}]",
            ),
        ],
    ),
    (
        "dms_changes",
        {"relation": "{wrong_dms}", "unique_key": "['id']"},
        [
            ("`unique_key` must be a list of column names", "unique_key=[]"),
            ("names a column that does not exist. Allowed: ['id', 'val", "unique_key=['no']"),
            ("Got: w", "columns=['id', 'w']"),
            ("`operation` names a column that does not", "operation='Opp'"),
            ("`operation` must be a text that is not empty", "operation=''"),
            ("`order_by` must be a list of column names", "order_by='x'"),
            ("`order_by` names a column that does not ex", "order_by=['x']"),
            ("`time` names a column that does not exist", "time='x'"),
            ("such as B_id. Got: B_, and the columns", "before_prefix='B_'"),
            ("`null_is_absent` names a column that", "null_is_absent=['x']"),
            (
                "whole numbers, decimals, dates or timestamps. Got: rank, a double",
                "relation={wrong_floats}",
                "order_by=['rank']",
            ),
            (
                "has no columns called change_seq of text or decimal(38,0) (the task's expression"
                " $AR_H_CHANGE_SEQ)."
                "… Allowed: ['Op', 'id', 'rank']. Got: None",
                "relation={wrong_floats}",
            ),
            ("has no columns called change_seq", "relation={wrong_rates}"),
            ("has 2 columns called change_seq", "relation={wrong_twice}"),
        ],
    ),
    (
        "dated_copies",
        {"relation": "{wrong_copies}", "unique_key": "['id']", "copy_column": "'copied_on'"},
        [
            ("`relation` must be a relation with the columns", "copy_column='day'"),
            ("`unique_key`…Got: no", "unique_key=['no']"),
            ("`columns`…Got", "columns=['copied_on']"),
        ],
    ),
]
CASES = [
    pytest.param(macro, good, message, changed, id=f"{macro}({', '.join(changed)})")
    for macro, good, cases in WRONG
    for message, *changed in cases
]


def call(macro: str, good: dict[str, str], changed: list[str]) -> str:
    arguments = good | dict(one.split("=", 1) for one in changed)
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
    for table in TABLES:
        text = text.replace(f"{{{table}}}", relation(table))
    return f"{macro}({text})"


@pytest.fixture(scope="module")
def said(make_project: Callable[[str], Project], lake: Lake) -> dict[str, str]:
    """What dbt says of each call."""
    for table, columns in TABLES.items():
        lake.create(table, columns, [])
    calls = [call(macro, good, changed) for macro, good, cases in WRONG for _, *changed in cases]
    return dict(zip(calls, make_project("wrong_arguments").refusals(calls), strict=True))


@pytest.mark.parametrize(("macro", "good", "message", "changed"), CASES)
def test_a_wrong_argument_is_named(
    macro: str, good: dict[str, str], message: str, changed: list[str], said: dict[str, str]
) -> None:
    found = said[call(macro, good, changed)]
    assert f"{macro}: " in found
    assert re.search(".*".join(map(re.escape, message.split("…"))), found)
