{#- Erases rows by their keys, as a run-operation:

        dbt run-operation erase --args '{staging: stg_customers, keys: [{id: 42}], reference: request 17}'

    From the staging model, its histories and audits, and all other tables below it that have the key's columns: their
    rows, the files that held them, and the versions of the tables that time travel could reach. Then it searches the files
    that are left. Keys that a key change links with the given ones are erased too. With `dry_run` it only says what it
    would do. It can be killed at any moment and repeated. Arguments: macros/erasure/erase.yml. -#}
{% macro erase(staging, keys=none, reference=none, listed=false, keep_intervals=none, raw=false, dry_run=false) %}
    {%- do afterimage._check_text('erase', 'staging', staging) -%}
    {%- if not execute -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set plan = afterimage._erasure_plan(staging, keys, listed, keep_intervals, raw) -%}
    {%- for line in afterimage._erasure_lines(plan) -%}
        {%- do log(line, info=true) -%}
    {%- endfor -%}
    {%- if not dry_run and plan.erased -%}
        {%- do afterimage._carry_out(plan, reference) -%}
        {%- for line in afterimage._proof_lines(plan) -%}
            {%- do log(line, info=true) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- What the erasure touches, line by line. -#}
{%- macro _erasure_lines(plan) -%}
    {%- set lines = [] -%}
    {%- if not plan.erased -%}
        {%- do lines.append(plan.staging ~ ': has no rows of the keys in the list of erasures') -%}
        {{ return(lines) }}
    {%- endif -%}
    {%- for key in plan.erased -%}
        {%- do lines.append('key ' ~ key ~ ('' if key in plan.given else ', linked by a key change')) -%}
    {%- endfor -%}
    {%- for table in afterimage._tables_erased(plan) -%}
        {%- do lines.append(table.name ~ ': ' ~ afterimage._counted_rows(table, plan) ~ ' rows') -%}
    {%- endfor -%}
    {%- for name in plan.rebuilt -%}
        {%- do lines.append(name ~ ': keeps the rows until dbt builds it again, as its files have no versions') -%}
    {%- endfor -%}
    {%- for name in plan.others -%}
        {%- do lines.append(name ~ ': is left alone, as its rows do not have this key') -%}
    {%- endfor -%}
    {%- for table in plan.raw_left -%}
        {%- set count = 'may have' if not table.images else 'has ' ~ afterimage._counted_rows(table, plan) -%}
        {%- do lines.append(
            table.name ~ ': ' ~ count ~ ' rows of these keys, and is left alone, as it is not ours; what is read of it again'
            ~ ' is left out'
        ) -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}


{%- macro _carry_out(plan, reference) -%}
    {#- From here on, what lands of these keys is left out. The staging table comes last: it tells which keys are
        linked. -#}
    {%- do afterimage._list_erasures(plan, reference) -%}
    {%- for table in plan.tables + plan.raw_tables -%}
        {#- Delta's DELETE takes no subquery. -#}
        {%- do run_query(
            'merge into ' ~ table.relation ~ ' as known using (' ~ afterimage._keys_of_plan(plan) ~ ') as erased on '
            ~ afterimage._is_of_key('known.', plan.unique_key, 'erased') ~ ' when matched then delete'
        ) -%}
        {%- do afterimage._forget_rows(table) -%}
    {%- endfor -%}
    {%- do afterimage._allow_many_steps() -%}
    {%- do run_query(afterimage._erase_changes(plan)) -%}
    {%- do afterimage._forget_rows(plan.stream) -%}
    {%- for table in afterimage._tables_erased(plan) if afterimage._counted_rows(table, plan) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ table.name ~ ' has rows of these keys again: another run wrote them. Run the command again.'
        ) -%}
    {%- endfor -%}
    {%- do log(plan.staging ~ ': erased ' ~ plan.erased | length ~ ' keys', info=true) -%}
{%- endmacro -%}


{%- macro _tables_erased(plan) -%}
    {{ return([plan.stream] + plan.tables + plan.raw_tables) }}
{%- endmacro -%}


{#- The condition that an image is of a key of a table with the columns of `_key_names`. -#}
{%- macro _is_of_key(image, unique_key, keys) -%}
    {{ return(
        afterimage._each(unique_key, 'cast(' ~ image ~ '{column} as string) = ' ~ keys ~ '.{key}') | join(' and ')
    ) }}
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


{%- macro _keys_of_plan(plan) -%}
    {{ return('select * from ' ~ afterimage._inline_keys(plan.texts)) }}
{%- endmacro -%}


{%- macro _counted_rows(table, plan) -%}
    {{ return(afterimage._value(
        'select count(*) from ' ~ table.relation ~ ' where '
        ~ afterimage._has_key(table.images, plan.unique_key, afterimage._keys_of_plan(plan))
    ) | int) }}
{%- endmacro -%}


{#- The statement that takes the values out of the changes of the keys. If the raw rows went too, these changes are of
    no row. What keeps its intervals is news to the models below. -#}
{%- macro _erase_changes(plan) -%}
    {%- set stream = plan.stream -%}
    {%- set further = afterimage._further_columns(stream.relation) -%}
    {%- set columns = afterimage._stream_columns('erase', stream.relation) | map(attribute='name') | list -%}
    {%- set erasures = afterimage._erasures_of(plan.staging, plan.unique_key, afterimage._erasures_table()) -%}
    {%- set changed = afterimage._changed_by_erasure() + further -%}
    {%- set last = afterimage._value('select unix_micros(max(ingested_at)) from ' ~ stream.relation) -%}
    {%- set now = "greatest(timestamp '" ~ run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f') ~ "', timestamp_micros("
        ~ (last or 0) ~ ' + 1))' -%}
merge into {{ stream.relation }} as known
using (
    with changes as (

        select *
        from {{ stream.relation }}
        where {{ afterimage._has_key(stream.images, plan.unique_key, afterimage._keys_of_plan(plan)) }}

    ),

    {{ afterimage._without_erased(erasures, columns, plan.unique_key, further) | indent(4) }}
    select *
    from kept_changes
    where is_erased
) as erased
    on known.change_id = erased.id_before
when matched then update set
    {%- for column in changed %}
    known.{{ afterimage._quote(column) }} = erased.{{ afterimage._quote(column) }},
    {%- endfor %}
    {%- if plan.raw_tables %}
    known.source_rows = 0,
    {%- endif %}
    known.ingested_at = if(erased.reject_reason is null, {{ now }}, known.ingested_at)
{%- endmacro -%}


{#- What a dialect adds to the contract, such as the key of an event. -#}
{%- macro _further_columns(relation) -%}
    {{ return(
        afterimage._relation_columns(relation) | map(attribute='name')
        | reject('in', afterimage._contract_columns() + ['ingested_at']) | list
    ) }}
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
