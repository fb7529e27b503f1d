{#- The model's rows, reduced to the columns of `expected`, are the rows of `expected`: none is missing, none is extra,
    and each appears as often. Columns are cast to text, so that a fixture can spell out any type. A seed cannot tell an
    empty text from NULL, so neither does this. -#}
{% test same_rows(model, expected) %}
    {%- if afterimage._needs_placeholder([expected]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set casts = [] -%}
    {%- for column in afterimage._existing_columns('same_rows', expected) %}
        {%- set name = afterimage._quote(column.name) -%}
        {%- do casts.append('nullif(cast(' ~ name ~ " as string), '') as " ~ name) %}
    {%- endfor %}

with

actual_rows as (

    select {{ casts | join(', ') }}
    from {{ model }}

),

expected_rows as (

    select {{ casts | join(', ') }}
    from {{ expected }}

)

select
    'missing' as problem,
    *
from (select * from expected_rows except all select * from actual_rows) as missing
union all
select
    'not expected' as problem,
    *
from (select * from actual_rows except all select * from expected_rows) as surplus

{% endtest %}
