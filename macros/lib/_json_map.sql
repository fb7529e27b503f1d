{#- A JSON object as a map of texts; NULL for any other text. -#}
{%- macro _json_map(text) -%}
    {{ return('from_json(' ~ text ~ ", 'map<string, string>')") }}
{%- endmacro -%}
