{#- The time in a text written by Qlik. It is in UTC, though the text does not say so. -#}
{%- macro _qlik_time(text) -%}
{{- afterimage._landed_time(
    'if(' ~ text ~ " rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', " ~ text ~ ', concat(' ~ text ~ ", 'Z'))", 'string'
) -}}
{%- endmacro -%}
