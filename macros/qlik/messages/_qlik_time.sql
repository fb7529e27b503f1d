{#- The time of a text as Qlik writes it, in UTC though nothing in it says so. -#}
{%- macro _qlik_time(text) -%}
{{- afterimage._landed_time(
    'if(' ~ text ~ " rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', " ~ text ~ ', concat(' ~ text ~ ", 'Z'))", 'string'
) -}}
{%- endmacro -%}
