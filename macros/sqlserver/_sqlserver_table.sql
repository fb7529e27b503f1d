{#- The columns of a change table, and its side for the intake: the rows of a transaction are read together. -#}
{%- macro _sqlserver_table(argument, relation) -%}
    {%- set needed = ['__$start_lsn', '__$seqval', '__$operation'] -%}
    {%- do afterimage._check_columns('sqlserver_change_table', argument, relation, needed) -%}
    {%- set header = {} -%}
    {%- set types = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- set is_header = column.name | lower in needed + ['__$end_lsn', '__$update_mask', '__$command_id'] -%}
        {%- do header.update({column.name | lower: column}) if is_header else types.update({column.name: column.type}) -%}
    {%- endfor -%}
    {%- set commit = afterimage._hex_digits(header['__$start_lsn']) -%}
    {%- set seqval = afterimage._hex_digits(header['__$seqval']) -%}
    {%- set command = 'trim(cast(`__$command_id` as string))' if '__$command_id' in header else "'0'" -%}
    {{ return({
        'types': types,
        'columns': types.keys() | list,
        'seqval': seqval,
        'command': command,
        'mask': afterimage._hex_digits(header['__$update_mask']) if '__$update_mask' in header else 'cast(null as string)',
        'side': {
            'relation': relation,
            'group': 'coalesce(' ~ commit ~ ", '')",
            'place': commit,
            'has_place': "(concat_ws(',', " ~ commit ~ ', ' ~ seqval ~ ', ' ~ command
                ~ ") rlike '^[0-9A-F]{20},[0-9A-F]{20}(,[0-9]{1,10})?$')",
            'reach': 12,
            'bounds': "`__$start_lsn` between X'<first>' and X'<last>'" if header['__$start_lsn'].type == 'binary'
                else commit ~ " between '<first>' and '<last>'",
        },
    }) }}
{%- endmacro -%}
