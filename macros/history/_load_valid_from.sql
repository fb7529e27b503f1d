{#- When the rows are valid from that have no time and none before them. -#}
{%- macro _load_valid_from(given=none) -%}
    {%- set moment = given or afterimage._setting('afterimage_load_valid_from') -%}
    {{ return('timestamp ' ~ afterimage._literal(moment | string)) }}
{%- endmacro -%}
