{#- A history -> the rows that lived at a moment: a date or time as text, or any SQL that gives a timestamp.
    Arguments: macros/history/_history.yml. -#}
{%- macro as_of(history, moment, meta_column_names=none) -%}
    {%- set moment = afterimage._timestamp('as_of', 'moment', moment, may_be_sql=true) -%}
    {%- set meta = afterimage._columns_of_history('as_of', history, meta_column_names) -%}

select *
from {{ history }}
where
    not {{ meta.is_deleted }}
    and {{ meta.valid_from }} <= {{ moment }}
    and ({{ meta.is_current }} or {{ moment }} < {{ meta.valid_to }})
{%- endmacro -%}
