{#- After the rows: says what the table has taken in, and of which of its snapshots that is true. -#}
{%- macro _remember_taken_in(target_relation, remembered) -%}
    {%- call statement('remember') -%}
        alter table {{ target_relation }} set tblproperties (
            'afterimage.snapshot' = '{{ afterimage._snapshot(target_relation) or '' }}',
            'afterimage.taken_in' = {{ afterimage._literal(afterimage._as_property(tojson(remembered))) }}
        )
    {%- endcall -%}
{%- endmacro -%}
