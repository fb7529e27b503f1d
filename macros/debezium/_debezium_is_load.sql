{%- macro _debezium_is_load() -%}
    {{ return("coalesce(m.op = 'r' or (m.op = 'c' and coalesce(lower(m.source.snapshot), 'false') <> 'false'), false)") }}
{%- endmacro -%}
