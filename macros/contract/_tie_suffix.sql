{#- What orders the changes behind the first at their place: `.002`, `.003`, …; from the 1000th on longer, and still
    behind those before and before what a dialect puts behind a place (`.c…`). -#}
{%- macro _tie_suffix(turn) -%}
    {%- set is_short = turn ~ ' < 1000' -%}
    {{ return('concat(if(' ~ is_short ~ ", '.', '.999.'), lpad(" ~ turn ~ ', if(' ~ is_short ~ ", 3, 9), '0'))") }}
{%- endmacro -%}
