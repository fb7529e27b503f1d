{#- The condition that an event belongs to a key change that lacks columns; `ended_by` for departures. -#}
{%- macro _lacks_values(side, prefix='') -%}
    {#- array_max skips NULLs. -#}
    {{ return(side ~ " = 'key_change' and array_max(" ~ prefix ~ 'unknown_columns) is not null') }}
{%- endmacro -%}
