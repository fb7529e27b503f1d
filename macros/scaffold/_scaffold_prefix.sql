{#- What the names of Qlik's header columns begin with, by the one that is always there. The longest prefix counts: a
    data column may have Qlik's own name. -#}
{%- macro _scaffold_prefix(landed, arguments) -%}
    {%- set found = namespace(prefix=arguments.get('header_prefix')) -%}
    {%- if found.prefix is none -%}
        {%- for column in landed.columns if (column.name | lower).endswith('change_seq') -%}
            {%- set prefix = column.name[:-10] -%}
            {%- if found.prefix is none or prefix | length > found.prefix | length -%}
                {%- set found.prefix = prefix -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return('header__' if found.prefix is none else found.prefix) }}
{%- endmacro -%}
