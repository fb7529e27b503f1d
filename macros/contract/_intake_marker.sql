{#- What the compiled SQL says of the raw tables, for the materialization to remember and to report. -#}
{%- macro _intake_marker(sides) -%}
    {%- set lines = [] -%}
    {%- for side in sides if side.state is not none and afterimage._keeps_mark() -%}
        {%- set said = {} -%}
        {%- for name in ['name', 'state', 'is_remembered', 'count', 'reason', 'views'] -%}
            {%- do said.update({name: side[name]}) -%}
        {%- endfor -%}
        {%- do lines.append('/* afterimage intake ' ~ tojson(said) ~ ' */\n') -%}
    {%- endfor -%}
    {{ return(lines | join) }}
{%- endmacro -%}
