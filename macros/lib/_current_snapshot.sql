{#- The current snapshot of an Iceberg table; none if it never had a row. -#}
{%- macro _current_snapshot(relation) -%}
    {{ return(afterimage._value(
        'select cast(max(snapshot_id) as string) from ' ~ relation ~ ".refs where name = 'main'"
    )) }}
{%- endmacro -%}
