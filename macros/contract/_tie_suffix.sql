{#- The suffix that orders further changes at a place: `.002`, `.003`, … From the 1000th on it is longer, but still
    sorts after the shorter ones and before what a dialect appends to a place (`.c…`). -#}
{%- macro _tie_suffix(turn) -%}
    {%- set is_short = turn ~ ' < 1000' -%}
    {{ return('concat(if(' ~ is_short ~ ", '.', '.999.'), lpad(" ~ turn ~ ', if(' ~ is_short ~ ", 3, 9), '0'))") }}
{%- endmacro -%}
