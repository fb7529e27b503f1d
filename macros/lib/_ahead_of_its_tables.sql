{#- The text in place of such a query: never run, but read by people. -#}
{%- macro _ahead_of_its_tables() -%}
-- The columns of the tables it reads decide what this query is, and they are not there yet. Build them first.
select 1 as nothing
{%- endmacro -%}
