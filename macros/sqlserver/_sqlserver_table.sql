{#- The columns of a change table or of cdc.lsn_time_mapping, and its side for the intake. The rows of a transaction are
    read together. -#}
{%- macro _sqlserver_table(argument, relation) -%}
    {%- set needed = ['start_lsn', 'tran_end_time'] if argument == 'lsn_times'
        else ['__$start_lsn', '__$seqval', '__$operation'] -%}
    {%- do afterimage._check_columns('sqlserver_change_table', argument, relation, needed) -%}
    {%- set table = {'header': {}, 'types': {}} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- set name = column.name | lower -%}
        {%- set is_header = name in needed + ['__$end_lsn', '__$update_mask', '__$command_id'] -%}
        {%- do table.header.update({name: column}) if is_header else table.types.update({column.name: column.type}) -%}
    {%- endfor -%}
    {%- set commit = afterimage._hex_digits(table.header[needed[0]]) -%}
    {%- set command = 'trim(cast(`__$command_id` as string))' if '__$command_id' in table.header
        else 'cast(null as string)' -%}
    {%- set seqval = afterimage._hex_digits(table.header['__$seqval']) if argument != 'lsn_times' -%}
    {%- set has_place = "(concat_ws(',', coalesce(" ~ commit ~ ", '')"
        ~ (", coalesce(" ~ seqval ~ ", ''), " ~ command if seqval) ~ ") rlike '^[0-9A-F]{20}(,[0-9A-F]{20}(,[0-9]{1,10})?)?$')" -%}
    {%- do table.update({'columns': table.types.keys() | list, 'seqval': seqval, 'command': command, 'side': {
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ commit ~ ", '')",
        'place': commit,
        'has_place': has_place,
        'reach': 12,
        'bounds': afterimage._quote(needed[0]) ~ " between X'<first>' and X'<last>'"
            if table.header[needed[0]].type == 'binary' else commit ~ " between '<first>' and '<last>'",
    }}) -%}
    {{ return(table) }}
{%- endmacro -%}
