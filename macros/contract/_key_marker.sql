{#- The comment in the compiled SQL that says by which key a raw table is read. It is hex, because names of columns may
    end a comment. -#}
{%- macro _key_marker(intake, unique_key) -%}
    {%- if not afterimage._tracks_reads() -%}
        {{ return('') }}
    {%- endif -%}
    {%- set content = {'name': intake.sides[0].name, 'key': unique_key | map('lower') | sort} -%}
    {{ return('/* afterimage key ' ~ afterimage._as_property(tojson(content)) ~ ' */') }}
{%- endmacro -%}
