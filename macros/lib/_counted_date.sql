{#- The text of a date from a text that may be a number of days since 1970. Outside the years 1 to 9999 the result is
    not a date. -#}
{%- macro _counted_date(text) -%}
    {%- set days = 'try_cast(' ~ text ~ ' as int)' -%}
    {%- set date = "date_add(date '1970-01-01', if(" ~ days ~ ' between -719162 and 2932896, ' ~ days ~ ', null))' -%}
    {{ return(
        'if(' ~ text ~ " rlike '^-?[0-9]+$', coalesce(cast(" ~ date ~ ' as string), concat(' ~ text ~ ", ' days')), "
        ~ text ~ ')'
    ) }}
{%- endmacro -%}
