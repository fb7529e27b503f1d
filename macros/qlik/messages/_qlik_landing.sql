{#- The columns of a Kafka landing: SQL expressions by name, with a typed NULL for a missing one. Returns none if
    the table does not exist yet. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if afterimage._cannot_read_columns([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = afterimage._message_columns(macro_name, relation, value) -%}
    {%- set landing = {
        'value': afterimage._quote(found[value | lower].name),
        'is_binary': found[value | lower].type == 'binary',
        'has_offsets': 'partition' in found and 'offset' in found,
    } -%}
    {%- for name, type in {
        'key': 'string', 'topic': 'string', 'partition': 'int', 'offset': 'bigint', 'timestamp': 'timestamp'
    }.items() -%}
        {%- set expression = afterimage._quote(found[name].name) if name in found else 'null' -%}
        {%- if name == 'key' and name in found and found[name].type == 'binary' -%}
            {%- set expression = 'hex(' ~ expression ~ ')' -%}
        {%- endif -%}
        {%- do landing.update({
            name: afterimage._landed_time(expression, found[name].type) if name == 'timestamp' and name in found
            else 'try_cast(' ~ expression ~ ' as ' ~ type ~ ')'
        }) -%}
    {%- endfor -%}
    {{ return(landing) }}
{%- endmacro -%}
