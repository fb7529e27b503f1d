{#- The columns of landed messages by their names in lower case; `value` is the one with the message. -#}
{%- macro _message_columns(macro_name, relation, value) -%}
    {%- set found = {} -%}
    {%- for column in afterimage._existing_columns(macro_name, relation) -%}
        {%- do found.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known(macro_name, 'value', [value], found.values() | map(attribute='name') | list) -%}
    {%- set type = found[value | lower].type -%}
    {%- if type not in ['string', 'binary'] -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `value` must be a column of type string (JSON) or binary (Avro). Got: " ~ value ~ " " ~ type
        ) -%}
    {%- endif -%}
    {{ return(found) }}
{%- endmacro -%}
