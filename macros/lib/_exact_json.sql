{#- Values as one text that differs wherever they differ: of a time Spark's `to_json` leaves out what is below a
    millisecond. -#}
{%- macro _exact_json(expression) -%}
    {%- set time = 'yyyy-MM-dd HH:mm:ss.SSSSSS' -%}
    {{ return(
        'to_json(' ~ expression ~ ", map('timestampFormat', '" ~ time ~ "XXX', 'timestampNTZFormat', '" ~ time ~ "'))"
    ) }}
{%- endmacro -%}
