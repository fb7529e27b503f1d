{#- A history -> the rows that lived at a moment: a date or time as text, or any SQL that gives a timestamp.
    Arguments: macros/history/_history.yml. -#}
{%- macro as_of(history, moment, meta_column_names=none) -%}
    {%- do afterimage._check_text('as_of', 'moment', moment) -%}
    {%- set meta = afterimage._columns_of_history('as_of', history, meta_column_names) -%}
    {%- set is_literal = modules.re.match('[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?$', moment) is not none -%}
    {%- set moment = 'timestamp ' ~ afterimage._literal(moment) if is_literal else '(' ~ moment ~ ')' -%}

select *
from {{ history }}
where
    not {{ meta.is_deleted }}
    and {{ meta.valid_from }} <= {{ moment }}
    and ({{ meta.valid_to }} is null or {{ moment }} < {{ meta.valid_to }})
{%- endmacro -%}
