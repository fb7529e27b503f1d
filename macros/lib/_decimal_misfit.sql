{#- Whether a text is not a decimal of the type, or has digits that the type would round away. A text with an
    exponent is compared with as many decimal places as fit. -#}
{%- macro _decimal_misfit(text, type) -%}
    {%- set parts = (type ~ '(10,0)').split('(')[1].split(')')[0].split(',') -%}
    {%- set scale = parts[1] | int if parts | length > 1 else 0 -%}
    {%- set widest = 'decimal(38,' ~ (38 - (parts[0] | int) + scale) ~ ')' -%}
    {{ return(
        '(coalesce(try_cast(' ~ text ~ ' as ' ~ type ~ ') <> try_cast(' ~ text ~ ' as ' ~ widest ~ '), true) or '
        ~ text ~ " rlike '^[^eE]*[.][0-9]{" ~ scale ~ "}[0-9]*[1-9]')"
    ) }}
{%- endmacro -%}
