{#- Reads the markers of `_key_marker` from a model's compiled SQL: a list of {name, key}. -#}
{%- macro _keys(sql) -%}
    {%- set keys = [] -%}
    {%- for content in modules.re.findall('/\\* afterimage key ([0-9a-f]+) \\*/', sql) -%}
        {%- do keys.append(fromjson(afterimage._from_property(content))) -%}
    {%- endfor -%}
    {{ return(keys) }}
{%- endmacro -%}
