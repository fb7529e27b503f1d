{#- What each system's table is known by: its columns, each with the doc block that describes it, and which of them must
    be there. `PKnn` stands for PK01, PK02, …; `an envelope` is found in the rows. -#}
{%- macro _scaffold_systems() -%}
    {{ return([
        {
            'macro': 'qlik_change_table', 'folder': 'qlik', 'title': 'a Qlik change table',
            'needed': ['header__change_seq', ['header__change_oper', 'header__operation']],
            'columns': {
                'header__change_seq': 'change_seq', 'header__change_oper': 'change_oper',
                'header__change_mask': 'change_mask', 'header__stream_position': 'stream_position',
                'header__operation': 'operation', 'header__transaction_id': 'transaction_id',
                'header__timestamp': 'timestamp',
            },
        },
        {
            'macro': 'qlik_messages', 'folder': 'qlik', 'title': 'a landing of Qlik or Talend messages on Kafka',
            'needed': ['value', 'an envelope'],
            'columns': {
                'value': 'value', 'an envelope': none, 'key': none, 'topic': none, 'partition': none, 'offset': none,
                'timestamp': none,
            },
        },
        {
            'macro': 'netiq_event_log', 'folder': 'netiq', 'title': 'an Identity Manager JDBC event log',
            'needed': ['record_id', 'table_key', 'event_type'],
            'columns': {
                'record_id': 'record_id', 'status': 'status', 'event_type': 'event_type', 'event_time': 'event_time',
                'perpetrator': 'perpetrator', 'table_name': 'table_name', 'table_key': 'table_key',
                'column_name': 'column_name', 'old_value': 'old_value', 'new_value': 'new_value',
            },
        },
        {
            'macro': 'db2_change_data', 'folder': 'db2', 'title': 'a Db2 CD or CCD table',
            'needed': ['IBMSNAP_COMMITSEQ', 'IBMSNAP_INTENTSEQ', 'IBMSNAP_OPERATION'],
            'columns': {
                'IBMSNAP_COMMITSEQ': 'commitseq', 'IBMSNAP_INTENTSEQ': 'intentseq', 'IBMSNAP_OPERATION': 'operation',
            },
        },
        {
            'macro': 'db2_text_log', 'folder': 'db2', 'title': 'the log table of a Db2 text index',
            'needed': ['OPERATION', 'TIME', 'PKnn'],
            'columns': {'OPERATION': 'operation', 'TIME': 'time', 'PKnn': 'pk'},
        },
        {
            'macro': 'openedge_change_table', 'folder': 'openedge', 'title': 'an OpenEdge change table',
            'needed': ['_Change-Sequence', '_Operation'],
            'columns': {
                '_Tran-Id': 'tran_id', '_Time-Stamp': 'time_stamp', '_Change-Sequence': 'change_sequence',
                '_Continuation-Position': 'continuation_position', '_ArrayIndex': 'arrayindex',
                '_Fragment': 'fragment', '_Operation': 'operation',
            },
        },
    ]) }}
{%- endmacro -%}
