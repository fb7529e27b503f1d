{#- The name of a header column without its prefix, in lower case; none for a data column. Without a prefix, header
    columns are those with one of Qlik's own names. -#}
{%- macro _qlik_header_name(name, prefix) -%}
    {%- set name = name | lower -%}
    {%- if not prefix -%}
        {{ return(name if name in afterimage._qlik_header_names() else none) }}
    {%- endif -%}
    {{ return(name[prefix | length:] if name.startswith(prefix | lower) else none) }}
{%- endmacro -%}
