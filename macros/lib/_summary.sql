{#- Aggregates over a relation as a dictionary: name -> SQL becomes name -> value. The values come as JSON, because over
    Thrift a result has no types. -#}
{%- macro _summary(relation, aggregates) -%}
    {%- set fields = [] -%}
    {%- for name, aggregate in aggregates.items() -%}
        {%- do fields.append(afterimage._literal(name) ~ ', ' ~ aggregate) -%}
    {%- endfor -%}
    {{ return(fromjson(afterimage._value(
        'select to_json(named_struct(' ~ fields | join(', ') ~ "), map('ignoreNullFields', 'false')) from " ~ relation
    ))) }}
{%- endmacro -%}
