{#- Whether a query that depends on the columns of these relations must do without them: while dbt parses, and when
    `dbt compile` or `dbt docs generate` runs before they are built. -#}
{%- macro _cannot_read_columns(relations) -%}
    {%- if not execute -%}
        {{ return(true) }}
    {%- endif -%}
    {%- if flags.WHICH not in ['compile', 'generate'] -%}
        {{ return(false) }}
    {%- endif -%}
    {%- for relation in relations if relation is not none and relation is not string -%}
        {%- if afterimage._load_relation(afterimage._stored_relation(relation)) is none -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}
