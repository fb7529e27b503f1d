{#- Erases rows by their keys, as a run-operation:

        dbt run-operation erase --args '{staging: stg_customers, keys: [{id: 42}], reference: request 17}'

    From the staging model, its histories and audits, and all other tables below it that have the key's columns: their
    rows, the files that held them, and the versions of the tables that time travel could reach. Keys that a key change
    links with the given ones are erased too. With `dry_run` it only says what it would do. It can be killed at any
    moment and repeated. Arguments: macros/erasure/erase.yml. -#}
{% macro erase(staging, keys, reference=none, dry_run=false) %}
    {%- do afterimage._check_text('erase', 'staging', staging) -%}
    {%- if not execute -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set plan = afterimage._erasure_plan(staging, keys) -%}
    {%- for line in afterimage._erasure_lines(plan) -%}
        {%- do log(line, info=true) -%}
    {%- endfor -%}
    {%- if not dry_run -%}
        {%- do afterimage._carry_out(plan, reference) -%}
    {%- endif -%}
{% endmacro %}


{#- What the erasure touches, line by line. -#}
{%- macro _erasure_lines(plan) -%}
    {%- set lines = [] -%}
    {%- for key in plan.erased -%}
        {%- do lines.append('key ' ~ key ~ ('' if key in plan.given else ', linked by a key change')) -%}
    {%- endfor -%}
    {%- for table in [plan.stream] + plan.tables -%}
        {%- do lines.append(table.name ~ ': ' ~ afterimage._counted_rows(table, plan) ~ ' rows') -%}
    {%- endfor -%}
    {%- for name in plan.rebuilt -%}
        {%- do lines.append(name ~ ': keeps the rows until dbt builds it again, as its files have no versions') -%}
    {%- endfor -%}
    {%- for name in plan.others -%}
        {%- do lines.append(name ~ ': is left alone, as its rows do not have this key') -%}
    {%- endfor -%}
    {%- for table in plan.raw -%}
        {%- set count = 'may have' if not table.images else 'has ' ~ afterimage._counted_rows(table, plan) -%}
        {%- do lines.append(
            table.name ~ ': ' ~ count ~ ' rows of these keys, and is left alone, as it is not ours; what is read of it again'
            ~ ' is left out'
        ) -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}


{%- macro _carry_out(plan, reference) -%}
    {%- set staging = plan.staging -%}
    {#- From here on, what lands of these keys is left out. The staging table comes last: it tells which keys are
        linked. -#}
    {%- set erasures = afterimage._list_erasures(plan, reference) -%}
    {%- set listed = afterimage._erased_keys(erasures, staging, plan.unique_key) -%}
    {%- for table in plan.tables -%}
        {%- do run_query(
            'merge into ' ~ table.relation ~ ' as known using (' ~ listed ~ ') as erased on '
            ~ afterimage._is_of_key('known.', plan.unique_key, 'erased') ~ ' when matched then delete'
        ) -%}
        {%- do afterimage._forget_rows(table) -%}
    {%- endfor -%}
    {%- do run_query(afterimage._erase_changes(plan, listed)) -%}
    {%- do afterimage._forget_rows(plan.stream) -%}
    {%- for table in [plan.stream] + plan.tables if afterimage._counted_rows(table, plan) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ table.name ~ ' has rows of these keys again: another run wrote them. Run the command again.'
        ) -%}
    {%- endfor -%}
    {%- do log(staging ~ ': erased ' ~ plan.erased | length ~ ' keys', info=true) -%}
{%- endmacro -%}


{#- The condition that a row has one of the keys that a query returns. -#}
{%- macro _has_key(images, unique_key, keys) -%}
    {%- set conditions = [] -%}
    {%- for image in images -%}
        {%- do conditions.append(
            '(' ~ afterimage._each(unique_key, 'cast(' ~ image ~ '{column} as string)') | join(', ') ~ ') in (' ~ keys ~ ')'
        ) -%}
    {%- endfor -%}
    {{ return(conditions | join(' or ')) }}
{%- endmacro -%}


{%- macro _counted_rows(table, plan) -%}
    {%- set keys = 'select * from ' ~ afterimage._inline_keys(plan.texts) -%}
    {{ return(afterimage._value(
        'select count(*) from ' ~ table.relation ~ ' where ' ~ afterimage._has_key(table.images, plan.unique_key, keys)
    ) | int) }}
{%- endmacro -%}


{#- Adds the keys to the list of erasures, and returns the list. -#}
{%- macro _list_erasures(plan, reference) -%}
    {%- set erasures = afterimage._erasures_table() -%}
    {%- do run_query(
        'create table if not exists ' ~ erasures
        ~ ' (model string, erased_key string, requested_at timestamp, reference string) using ' ~ plan.stream.format
    ) -%}
    {%- set staging = afterimage._literal(plan.staging) -%}
    {%- set reference = 'cast(null as string)' if reference is none else afterimage._literal(reference | string) -%}
    {%- do run_query(
        'insert into ' ~ erasures ~ ' select ' ~ staging ~ ', erased_key, current_timestamp(), ' ~ reference
        ~ ' from (values ' ~ afterimage._each(plan.erased, '({name})') | join(', ') ~ ' as given(erased_key))'
        ~ ' where erased_key not in (select erased_key from ' ~ erasures ~ ' where model = ' ~ staging ~ ')'
    ) -%}
    {{ return(erasures) }}
{%- endmacro -%}


{#- The statement that takes the values out of the changes of the listed keys. -#}
{%- macro _erase_changes(plan, listed) -%}
    {%- set stream = plan.stream -%}
    {%- set values = dict(afterimage._erased_values('known.change_id')) -%}
    {%- set kept = afterimage._contract_columns() + ['ingested_at'] -%}
    {%- for column in afterimage._relation_columns(stream.relation) if column.name not in kept -%}
        {#- What a dialect adds to the contract, such as the key of an event. -#}
        {%- do values.update({column.name: 'null'}) -%}
    {%- endfor -%}
merge into {{ stream.relation }} as known
using (
    select change_id from {{ stream.relation }}
    where {{ afterimage._has_key(stream.images, plan.unique_key, listed) }}
) as erased
    on known.change_id = erased.change_id
when matched then update set
    {%- for column, value in values.items() %}
    known.{{ afterimage._quote(column) }} = {{ value }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro -%}


{#- Removes the files and versions that still hold erased rows. What a run notes of its table's version follows. -#}
{%- macro _forget_rows(table) -%}
    {%- set noted = afterimage._table_properties(table.relation).get('afterimage.snapshot') -%}
    {%- do afterimage._of_format(table.format, 'forget')(table.relation) -%}
    {%- if noted -%}
        {%- do afterimage._set_properties(table.relation, {
            'afterimage.snapshot': afterimage._of_format(table.format, 'version')(table.relation)
        }) -%}
    {%- endif -%}
{%- endmacro -%}
