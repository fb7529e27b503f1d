{#- What a capture instance has, or cdc.lsn_time_mapping: of each column of the header its value as text, the data columns,
    and the side for the intake, which reads the rows of a transaction together. -#}
{%- macro _sqlserver_table(argument, relation) -%}
    {%- set is_instance = argument != 'lsn_times' -%}
    {%- set needed = ['__$start_lsn', '__$seqval', '__$operation'] if is_instance else ['start_lsn', 'tran_end_time'] -%}
    {%- set value = dict.fromkeys(['__$command_id', '__$update_mask', '__$end_lsn'], 'cast(null as string)') -%}
    {%- set table = {'is_instance': is_instance, 'value': value, 'data': [], 'types': {}} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {#- A landing that cannot have a dollar in a name puts an underscore in its place, or nothing. -#}
        {%- set name = modules.re.sub('^__[$_]?', '__$', column.name | lower) -%}
        {%- set landed = afterimage._quote(column.name) -%}
        {%- do table.types.update({name: column.type, column.name: column.type}) -%}
        {%- if name == 'tran_end_time' -%}
            {%- do value.update({name: afterimage._landed_time(landed, column.type)}) -%}
        {%- elif name in needed or name in value -%}
            {#- Bytes as text may have 0x before the digits, or colons between them. -#}
            {%- do value.update({name: 'hex(' ~ landed ~ ')' if column.type == 'binary'
                else "upper(regexp_replace(trim(cast(" ~ landed ~ " as string)), '^0[xX]|:', ''))"}) -%}
        {%- else -%}
            {%- do table.data.append(column.name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if needed | reject('in', value) | list -%}
        {%- do exceptions.raise_compiler_error(
            "sqlserver_change_table: `" ~ argument ~ "` must be a relation with the columns " ~ needed | join(', ') ~ ". "
            ~ relation ~ " has: " ~ table.types.keys() | list
        ) -%}
    {%- endif -%}
    {%- set commit = value[needed[0]] -%}
    {%- set place = commit if not is_instance
        else commit ~ ", coalesce(" ~ value['__$seqval'] ~ ", ''), " ~ value['__$command_id'] -%}
    {%- do table.update({'side': {
        'relation': relation,
        'group': 'coalesce(' ~ commit ~ ", '')",
        'place': commit,
        'has_place': "(concat_ws(',', " ~ place ~ ") rlike '^[0-9A-F]{20}(,[0-9A-F]{20}(,[0-9]{1,10})?)?$')",
        'reach': 12,
        'bounds': (commit[4:-1] ~ " between X'<first>' and X'<last>'") if commit.startswith('hex(')
            else commit ~ " between '<first>' and '<last>'",
    }}) -%}
    {{ return(table) }}
{%- endmacro -%}
