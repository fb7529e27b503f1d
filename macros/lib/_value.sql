{#- The value that a query gives, in one row of one column. -#}
{%- macro _value(query) -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
