{#- dbt's own `is_incremental` needs a table, which an ephemeral model or an inline query does not have, and it
    knows only dbt's own materialization. -#}
{%- macro _is_incremental() -%}
    {%- if not execute or not afterimage._tracks_reads() -%}
        {{ return(this is not none and is_incremental()) }}
    {%- endif -%}
    {%- set built = load_relation(this) -%}
    {{ return(built is not none and built.type == 'table' and not should_full_refresh()) }}
{%- endmacro -%}
