{#- A value as a text of hex digits and `-` that sorts like the value: texts and bytes as hex, numbers padded, times
    as their microseconds. None for a type without such a text. -#}
{%- macro _sortable_text(expression, type) -%}
    {%- if type in ['string', 'binary'] -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- endif -%}
    {%- set is_decimal = type.startswith('decimal') -%}
    {%- set scale = type.split(',')[1].strip(')') | int if is_decimal else 0 -%}
    {%- set whole = 'floor(' ~ expression ~ ')' if is_decimal else expression -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {%- set whole = 'unix_micros(cast(' ~ expression ~ ' as timestamp))' -%}
    {%- elif type not in ['tinyint', 'smallint', 'int', 'bigint'] and not (is_decimal and scale <= 36) -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Below zero the complement of each digit, after a sign that sorts before all digits. -#}
    {%- set digits = 'lpad(cast(abs(cast(' ~ whole ~ ' as decimal(38,0))) as string), '
        ~ (38 if is_decimal else 19) ~ ", '0')" -%}
    {%- set text = 'if(' ~ whole ~ " < 0, concat('-', translate(" ~ digits ~ ", '0123456789', '9876543210')), "
        ~ digits ~ ')' -%}
    {#- One is added so that no small fraction is written with an exponent. -#}
    {{ return('concat(' ~ text ~ ', substr(cast(pmod(' ~ expression ~ ', 1) + 1 as string), 3))' if scale else text) }}
{%- endmacro -%}
