{#- The identity of a table row: the key's values as one text; NULL if table_key does not give them. -#}
{%- macro _netiq_object_id(layout) -%}
    {%- set values = [] -%}
    {%- for key in layout.key_columns -%}
        {%- set value = afterimage._netiq_cast('key_text.' ~ afterimage._quote(key.name), key.type) -%}
        {%- do values.append(afterimage._as_text(value, key.type)) -%}
    {%- endfor -%}
    {{ return(
        'if(size(parsed.parts) = ' ~ values | length ~ ' and ' ~ values | join(' is not null and ')
        ~ ' is not null, to_json(array(' ~ values | join(', ') ~ ')), null)'
    ) }}
{%- endmacro -%}
