{#- A value as a text that casts to its column's type, although the message has a number of days or milliseconds, or
    unscaled bytes. A value of another type keeps its own text, which does not fit. -#}
{%- macro _debezium_text(values, column) -%}
    {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' -%}
    {%- if column.type.startswith('decimal') and column.get('encoding') != 'text' -%}
        {#- `1250` and `true` may be Base64, which has quotes in the message. A decimal of any scale has its own scale. -#}
        {%- set is_number = "v = 'Infinity' or (v rlike '^([0-9eE+]+|true)$' and value rlike "
            ~ afterimage._literal('"\\Q' ~ column.name ~ '\\E"\\s*:\\s*[^"{n\\s]') ~ ')' -%}
        {%- set decimal = afterimage._decimal_of_bytes(
            afterimage._hex_of_base64("if(startswith(v, '{'), get_json_object(v, '$.value'), v)"),
            "if(startswith(v, '{'), get_json_object(v, '$.scale'), '" ~ column.type.split(',')[1].rstrip(')') ~ "')"
        ) -%}
        {{ return(afterimage._let('v', text, 'if(' ~ is_number ~ ', v, coalesce(' ~ decimal ~ ', v))')) }}
    {%- elif column.type == 'binary' and column.get('encoding') != 'hex' -%}
        {{ return(
            'coalesce(' ~ afterimage._hex_of_base64(text) ~ ", concat('not Base64: ', " ~ text ~ '))'
        ) }}
    {%- elif column.type == 'date' -%}
        {{ return(afterimage._counted_date(text)) }}
    {%- elif column.type.startswith('timestamp') -%}
        {{ return(afterimage._counted_time(text, column.precision)) }}
    {%- endif -%}
    {{ return(text) }}
{%- endmacro -%}
