{#- The comment in the compiled SQL that passes the state of the raw tables to the materialization. -#}
{%- macro _intake_marker(sides) -%}
    {%- set lines = [] -%}
    {%- for side in sides if side.state is not none and afterimage._tracks_reads() -%}
        {%- set content = {} -%}
        {%- for name in ['name', 'state', 'is_remembered', 'count', 'reason', 'views'] -%}
            {%- do content.update({name: side[name]}) -%}
        {%- endfor -%}
        {%- do lines.append('/* afterimage intake ' ~ tojson(content) ~ ' */\n') -%}
    {%- endfor -%}
    {{ return(lines | join) }}
{%- endmacro -%}
