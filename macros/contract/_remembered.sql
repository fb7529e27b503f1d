{#- What the model's table remembers: {read: raw table -> state, snapshot: its own snapshot at that time}. -#}
{%- macro _remembered() -%}
    {%- set properties = afterimage._table_properties(this) -%}
    {%- set read = afterimage._from_property(properties.get('afterimage.read')) -%}
    {{ return({
        'read': fromjson(read) if read else {},
        'snapshot': properties.get('afterimage.snapshot', ''),
    }) }}
{%- endmacro -%}
