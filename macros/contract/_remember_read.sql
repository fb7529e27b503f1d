{#- Stores what was read, and the snapshot of the model's table for which that holds. -#}
{%- macro _remember_read(target_relation, intakes, keeps_earlier) -%}
    {%- if intakes | rejectattr('is_remembered') | list | length == 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set read = afterimage._remembered().read if keeps_earlier else {} -%}
    {%- call statement('remember') -%}
        alter table {{ target_relation }} set tblproperties (
            'afterimage.read' = '{{ afterimage._as_property(tojson(dict(read, **afterimage._read_states(intakes)))) }}',
            'afterimage.snapshot' = '{{ afterimage._snapshot(target_relation) or '' }}'
        )
    {%- endcall -%}
{%- endmacro -%}
