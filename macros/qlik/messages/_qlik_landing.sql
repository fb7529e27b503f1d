{#- The columns of a Kafka landing: SQL expressions by name, with a typed NULL for a missing one. Returns none if
    the table does not exist yet. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if afterimage._cannot_read_columns([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- if not found -%}
        {%- do afterimage._raise_no_columns(macro_name, relation) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'value', [value], found.values() | map(attribute='name') | list) -%}
    {%- set value_type = found[value | lower].type -%}
    {%- if value_type not in ['string', 'binary'] -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `value` must be a column of type string (JSON) or binary (Avro). Got: "
            ~ value ~ " " ~ value_type
        ) -%}
    {%- endif -%}
    {%- set landing = {
        'value': afterimage._quote(found[value | lower].name),
        'is_binary': value_type == 'binary',
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
