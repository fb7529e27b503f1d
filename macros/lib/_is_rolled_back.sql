{#- Whether our table was rolled back after it stored what it had read or taken in. A rollback takes back the rows
    but not the properties. -#}
{%- macro _is_rolled_back(relation, snapshot, present) -%}
    {%- if not snapshot or present == snapshot -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select count_if(not is_current_ancestor) from ' ~ relation ~ '.history where snapshot_id = ' ~ snapshot | int
    ) > 0) }}
{%- endmacro -%}
