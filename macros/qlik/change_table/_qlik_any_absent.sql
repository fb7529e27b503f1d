{#- The condition that an update lacks any column. -#}
{%- macro _qlik_any_absent(columns, unique_key) -%}
{%- for column in columns if column not in unique_key %}
{{ afterimage._qlik_is_absent(column) }}{{ ' or' if not loop.last }}
{%- else -%}
false
{%- endfor %}
{%- endmacro -%}
