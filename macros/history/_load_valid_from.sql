{#- The `valid_from` of rows without a timestamp that no timestamp precedes. -#}
{%- macro _load_valid_from(given=none) -%}
    {%- set moment = given or afterimage._setting('afterimage_load_valid_from') -%}
    {{ return(afterimage._timestamp('history', 'load_valid_from', moment)) }}
{%- endmacro -%}
