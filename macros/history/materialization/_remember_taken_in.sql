{#- After the rows are written: stores what the table has taken in, and the snapshot for which that holds. -#}
{%- macro _remember_taken_in(target_relation, remembered) -%}
    {%- call statement('remember') -%}
        alter table {{ target_relation }} set tblproperties (
            'afterimage.snapshot' = '{{ afterimage._snapshot(target_relation) or '' }}',
            'afterimage.taken_in' = {{ afterimage._literal(afterimage._as_property(tojson(remembered))) }}
        )
    {%- endcall -%}
{%- endmacro -%}
