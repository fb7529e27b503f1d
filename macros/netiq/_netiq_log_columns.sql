{#- The log's columns by the vendor's names, quoted. The vendor documents two orders and lets each column be
    renamed, so columns are found by name only. -#}
{%- macro _netiq_log_columns(macro_name, relation, column_names) -%}
    {%- set standard = [
        'record_id', 'status', 'event_type', 'event_time', 'perpetrator', 'table_name', 'table_key', 'column_name',
        'old_value', 'new_value',
    ] -%}
    {%- if column_names is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `column_names` must map the standard names of the event log's columns to yours, such as"
            ~ " {'record_id': 'rec_id'}. Got: " ~ column_names
        ) -%}
    {%- endif -%}
    {%- for name, given in column_names.items() -%}
        {%- do afterimage._check_choice(macro_name, 'column_names', name, standard) -%}
        {%- do afterimage._check_text(macro_name, 'column_names', given) -%}
    {%- endfor -%}
    {%- set log = {} -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | list -%}
    {%- for name in standard -%}
        {%- set landed_name = column_names.get(name, name) -%}
        {%- if found and landed_name | lower not in found | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": " ~ relation ~ " has no column '" ~ landed_name ~ "'. An event log has all ten of "
                ~ standard ~ "; map renamed columns with `column_names`. Got: " ~ found
            ) -%}
        {%- endif -%}
        {%- do log.update({name: afterimage._quote(landed_name)}) -%}
    {%- endfor -%}
    {{ return(log) }}
{%- endmacro -%}
