{#- The place of what a message tells: '' for a row of a first snapshot and where there is none. A row of an incremental
    snapshot comes right after the last change before it. -#}
{%- macro _debezium_change_place(position=none) -%}
case
    when {{ afterimage._debezium_is_load() }} and not {{ afterimage._debezium_is_incremental() }} then ''
    {%- if position is not none %}
    else coalesce({{ position }}, '')
    {%- else %}
    else coalesce(concat({{ afterimage._debezium_place() | indent(4) }}, if({{ afterimage._debezium_is_incremental() }}, '.i', '')), '')
    {%- endif %}
end
{%- endmacro -%}
