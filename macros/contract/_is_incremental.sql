{#- dbt's own asks for the model's table, which an ephemeral model and an inline query do not have, and knows its own
    materialization alone. -#}
{%- macro _is_incremental() -%}
    {%- if not execute or not afterimage._keeps_mark() -%}
        {{ return(this is not none and is_incremental()) }}
    {%- endif -%}
    {%- set built = load_relation(this) -%}
    {{ return(built is not none and built.type == 'table' and not should_full_refresh()) }}
{%- endmacro -%}
