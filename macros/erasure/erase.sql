{#- Erases rows by their keys, as a run-operation:

        dbt run-operation erase --args '{staging: stg_customers, keys: [{id: 42}], reference: request 17}'

    It erases from the staging model, its histories and audits, and all other tables below it that have the key's
    columns: the rows, the files that held them, and the versions of the tables that time travel could reach. Then it
    checks the files that are left. Keys that a key change links with the given ones are erased too. With `dry_run` it
    only says what it would do. It can be killed at any moment and repeated. Arguments: macros/erasure/erase.yml. -#}
{% macro erase(staging, keys=none, reference=none, listed=false, keep_intervals=none, raw=false, dry_run=false) %}
    {%- do afterimage._check_text('erase', 'staging', staging) -%}
    {%- if not execute -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set plan = afterimage._erasure_plan(staging, keys, listed, keep_intervals, raw) -%}
    {%- for line in afterimage._erasure_lines(plan) -%}
        {%- do log(line, info=true) -%}
    {%- endfor -%}
    {%- if not dry_run -%}
        {%- do afterimage._carry_out(plan, reference) -%}
        {%- for line in afterimage._proof_lines(plan) -%}
            {%- do log(line, info=true) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- What the erasure touches, line by line. -#}
{%- macro _erasure_lines(plan) -%}
    {%- set lines = [] -%}
    {%- for key in plan.erased -%}
        {%- do lines.append('key ' ~ key ~ ('' if key in plan.given else ', linked by a key change')) -%}
    {%- endfor -%}
    {%- for table in afterimage._tables_erased(plan) -%}
        {%- do lines.append(
            table.name ~ (': ' ~ afterimage._rows_of_plan(table, plan) ~ ' rows' if table.images else ': the rows of their changes')
        ) -%}
        {%- for stream in table.other_streams -%}
            {%- do lines.append(
                table.name ~ ': also has what ' ~ stream ~ ' has of these keys, and loses it too; erase them there as well, or a'
                ~ ' full refresh brings it back'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do lines.extend(afterimage._lines_of_raw_tables(plan)) -%}
    {%- for name in plan.rebuilt -%}
        {%- do lines.append(name ~ ': keeps the rows until dbt builds it again, as its files have no versions') -%}
    {%- endfor -%}
    {%- for table in plan.others -%}
        {%- set count = '; it has ' ~ afterimage._rows_of_plan(table, plan) ~ ' rows of these values' -%}
        {%- do lines.append(table.name ~ ': is left alone, as ' ~ table.why ~ (count if table.images else '')) -%}
    {%- endfor -%}
    {%- for name in plan.beside -%}
        {%- do lines.append(
            name ~ ': is left alone; it reads what ' ~ plan.staging ~ ' reads, and may have the values of these keys'
        ) -%}
    {%- endfor -%}
    {%- for name in plan.raw_gone -%}
        {%- do lines.append(name ~ ': is gone, so nothing is erased there') -%}
    {%- endfor -%}
    {%- for table in plan.raw_left -%}
        {%- set count = 'may have' if not table.images else 'has ' ~ afterimage._rows_of_plan(table, plan) -%}
        {%- do lines.append(
            table.name ~ ': ' ~ count ~ ' rows of these keys, and is left alone, as ' ~ (table.why or 'it is not ours')
            ~ '; what is read of it again is left out'
        ) -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}


{#- Erases all keys that the list has of the model then, which are those of the plan and those that are gone. From raw
    tables only the former: the rows of the others may have been left there on purpose. -#}
{%- macro _carry_out(plan, reference) -%}
    {%- do afterimage._settle_rollbacks(plan) -%}
    {%- if plan.texts -%}
        {%- do afterimage._list_erasures(plan, reference) -%}
    {%- endif -%}
    {%- set list = afterimage._erasures_table() if plan.texts -%}
    {%- set erasures = afterimage._erasures_of(plan.staging, plan.unique_key, plan.key_types, list) -%}
    {%- if erasures is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set own_keys = afterimage._keys_of_plan(plan) -%}
    {%- set plan = dict(plan, erasures=erasures) -%}
    {#- From here on, what lands of these keys is left out. The staging table comes last: it tells which keys are
        linked. -#}
    {%- for table in plan.tables + plan.raw_tables -%}
        {%- set keys = own_keys if table.is_raw else erasures -%}
        {%- for text in afterimage._key_texts_in(table, 'known.', plan, keys.salt) if table.images -%}
            {#- Delta's DELETE takes no subquery. -#}
            {%- do run_query(
                'merge into ' ~ table.relation ~ ' as known using ('
                ~ afterimage._key_texts_for(table, plan, keys.key_texts, keys.salt) ~ ') as erased on ' ~ text
                ~ ' = erased.key_text when matched then delete'
            ) -%}
        {%- endfor -%}
        {%- do afterimage._erase_parts(table, plan, erasures) -%}
        {%- do afterimage._forget_rows(table) -%}
    {%- endfor -%}
    {%- do afterimage._allow_many_steps() -%}
    {%- do afterimage._erase_changes(plan, erasures) -%}
    {%- do afterimage._forget_rows(plan.stream) -%}
    {%- for table in afterimage._tables_erased(plan)
        if afterimage._counted_rows(table, plan, own_keys if table.is_raw else erasures) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ table.name ~ ' has rows of these keys again: another run wrote them. Run the command again.'
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- A table that was rolled back gets a version here that hides it. So staging first forgets what it has read, and its
    next run reads everything; any other table needs a full refresh. -#}
{%- macro _settle_rollbacks(plan) -%}
    {%- for table in plan.tables + [plan.stream] -%}
        {%- set noted = afterimage._table_properties(table.relation).get('afterimage.snapshot') -%}
        {%- set present = afterimage._of_format(table.format, 'version')(table.relation) if noted -%}
        {%- if noted and afterimage._of_format(table.format, 'is_rolled_back')(table.relation, noted, present) -%}
            {%- if table.name != plan.staging -%}
                {%- do exceptions.raise_compiler_error(
                    'erase: ' ~ table.relation ~ ' was rolled back, so it lacks changes. Run `dbt run --full-refresh'
                    ~ ' --select ' ~ table.name ~ '`, and then this again.') -%}
            {%- endif -%}
            {%- do run_query('alter table ' ~ table.relation ~ " unset tblproperties if exists ('afterimage.read')") -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The proof: no row of the present version has a key (see above), no file belongs to another version or to none, and
    no run has left a table of the rows that it read. -#}
{%- macro _proof_lines(plan) -%}
    {%- set lines = [] -%}
    {%- for table in afterimage._tables_erased(plan) -%}
        {%- set left = afterimage._of_format(table.format, 'files_left')(table.relation) -%}
        {%- if left -%}
            {%- do exceptions.raise_compiler_error(
                'erase: ' ~ table.name ~ ' has files that belong to no version of it, and may have rows of these keys. '
                ~ ('If a writer is at work, stop it: it may be about to commit them. Remove the files only if nothing'
                ~ ' writes to the table' if table.is_raw
                else 'A run that was killed left them. Remove the files, if no run is at work')
                ~ '. Run the command again then. Got: ' ~ left | join(', ')
            ) -%}
        {%- endif -%}
        {%- set scratch = afterimage._scratch_tables_left(table.relation) if not table.is_raw -%}
        {%- if scratch -%}
            {%- do exceptions.raise_compiler_error(
                'erase: ' ~ table.name ~ ' has scratch tables of runs that were killed, which may have rows of these keys. Drop'
                ~ ' the tables, if no run is at work. Run the command again then. Got: ' ~ scratch | join(', ')
            ) -%}
        {%- endif -%}
        {%- do lines.append(table.name ~ ': no file has rows of these keys') -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}


{%- macro _tables_erased(plan) -%}
    {{ return([plan.stream] + plan.tables + plan.raw_tables) }}
{%- endmacro -%}


{#- The condition that a row of a table has a key of those whose texts a query returns. -#}
{%- macro _has_key(table, plan, key_texts, salt) -%}
    {%- set key_texts = afterimage._key_texts_for(table, plan, key_texts, salt) -%}
    {%- set conditions = [] -%}
    {%- for image in table.images -%}
        {%- for text in afterimage._key_texts_in(table, image, plan, salt) -%}
            {%- do conditions.append(text ~ ' in (' ~ key_texts ~ ')') -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(conditions | join(' or ') or 'false') }}
{%- endmacro -%}


{%- macro _counted_rows(table, plan, keys) -%}
    {%- set has_key = afterimage._has_key(table, plan, keys.key_texts, keys.salt) -%}
    {{ return(afterimage._value('select count(*) from ' ~ table.relation ~ ' where ' ~ has_key) | int) }}
{%- endmacro -%}


{#- The texts of the keys of the plan, which may not be listed yet, and of listed ones, of which the staging table may
    have no rows any longer; none if there are no keys. -#}
{%- macro _keys_of_plan(plan) -%}
    {%- set salt = plan.erasures.salt if plan.erasures else none -%}
    {%- set key_texts = [plan.erasures.key_texts] if plan.erasures else [] -%}
    {%- if plan.texts -%}
        {%- do key_texts.append(
            'select ' ~ afterimage._key_text(afterimage._each(plan.unique_key, '{key}'), salt) ~ ' as key_text from '
            ~ afterimage._inline_keys(plan.texts)
        ) -%}
    {%- endif -%}
    {{ return({'key_texts': key_texts | join(' union '), 'salt': salt} if key_texts else none) }}
{%- endmacro -%}


{%- macro _rows_of_plan(table, plan) -%}
    {%- set keys = afterimage._keys_of_plan(plan) -%}
    {{ return(afterimage._counted_rows(table, plan, keys) if keys else 0) }}
{%- endmacro -%}


{#- Takes the values out of the changes of the keys. If the raw rows went too, these changes are of no row. What keeps
    its intervals is news to the models below. -#}
{%- macro _erase_changes(plan, erasures) -%}
    {%- set stream = plan.stream.relation -%}
    {%- set further = afterimage._further_columns(stream) -%}
    {%- set columns = afterimage._stream_columns('erase', stream) | map(attribute='name') | list -%}
    {%- set last = afterimage._value('select unix_micros(max(ingested_at)) from ' ~ stream) -%}
    {%- set now = "greatest(timestamp '" ~ run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f') ~ "Z', timestamp_micros("
        ~ (last or 0) ~ ' + 1))' -%}
    {%- set of_keys = 'select * from ' ~ stream ~ ' where ' ~ afterimage._has_key(
        plan.stream, plan, erasures.key_texts, erasures.salt
    ) -%}
    {#- A run that came after the key was listed may have read a change again, without its values. -#}
    {%- set erased_ids = 'select change_id from ' ~ stream ~ " where startswith(change_id, 'erased-')" -%}
    {%- if run_query(erased_ids ~ ' limit 1').rows -%}
        {%- do run_query(
            'merge into ' ~ stream ~ ' as known using (select of_keys.change_id from (' ~ of_keys ~ ') as of_keys inner join ('
            ~ erased_ids ~ ") as erased on concat('erased-', md5(of_keys.change_id)) = erased.change_id) as read_again"
            ~ ' on known.change_id = read_again.change_id when matched then delete'
        ) -%}
    {%- endif -%}
    {%- set statement -%}
merge into {{ stream }} as known
using (
    with changes as (

        {{ of_keys }}

    ),

    {{ afterimage._without_erased(erasures, columns, plan.unique_key, further, plan.erased_columns) | indent(4) }}
    select *
    from kept_changes
    where is_erased
) as erased
    on known.change_id = erased.id_before
when matched then update set
    {%- for column in afterimage._contract_columns() + further %}
    known.{{ afterimage._quote(column) }} = {{ '0' if column == 'source_rows' and plan.loses_rows
        else 'erased.' ~ afterimage._quote(column) }},
    {%- endfor %}
    known.ingested_at = if(erased.reject_reason is null, {{ now }}, known.ingested_at)
    {%- endset -%}
    {%- do run_query(statement) -%}
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
