{#- The placeholder for such a query. It never runs, but people read it. -#}
{%- macro _placeholder_query() -%}
-- This query depends on the columns of the tables it reads, and they do not exist yet. Build them first.
select 1 as nothing
{%- endmacro -%}
