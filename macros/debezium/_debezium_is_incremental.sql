{%- macro _debezium_is_incremental() -%}
    {{ return('(' ~ afterimage._debezium_is_load() ~ " and coalesce(lower(m.source.snapshot) = 'incremental', false))") }}
{%- endmacro -%}
