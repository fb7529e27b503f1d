{#- Whether a text is not a decimal of the type, or has digits that the type would round away. -#}
{%- macro _decimal_misfit(text, type) -%}
    {%- set parts = (type ~ '(10,0)').split('(')[1].split(')')[0].split(',') -%}
    {%- set scale = parts[1] | int if parts | length > 1 else 0 -%}
    {#- The number of decimal places. -#}
    {%- set places = "length(regexp_extract(" ~ text ~ ", '[.]([0-9]*)', 1)) - try_cast(regexp_extract(" ~ text
        ~ ", '[eE][+]?(-?[0-9]+)', 1) as int)" -%}
    {%- set excess = "right(regexp_replace(" ~ text ~ ", '[eE].*$|[^0-9]', ''), " ~ places ~ " - " ~ scale ~ ")" -%}
    {{ return(
        '(try_cast(' ~ text ~ ' as ' ~ type ~ ') is null or if(' ~ text ~ " rlike '[eE]', coalesce(" ~ excess
        ~ " rlike '[1-9]', true), " ~ text ~ " rlike '[.][0-9]{" ~ scale ~ "}[0-9]*[1-9]'))"
    ) }}
{%- endmacro -%}
