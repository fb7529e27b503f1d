{#- The arguments that a raw table was read with before. Some must stay. Others may change, and then all its rows are
    read once more. `built_with` is what the staging table remembers; one of an earlier release does not say them, and
    goes on. A table of another name, in place of one or beside it, may need other arguments. -#}


{#- Raises an error if a raw table was read by another key before, or with other arguments that ids and places are
    `made_by`: they decided what replaced what, which source table was read, or what a table beside it has said. One that
    was none may be given: a topic got a second table. Warns of a further table whose rows are ordered by `position`: it
    may have another topic. -#}
{%- macro _check_key(relation, unique_key, made_by, built_with) -%}
    {%- set whole = afterimage._whole(relation) -%}
    {%- set own = afterimage._own_entries(whole, made_by, built_with) -%}
    {%- if built_with and not own and made_by.get('position', 'none') != 'none' -%}
        {%- do exceptions.warn(
            'change_stream ' ~ model.name ~ ': ' ~ this ~ ' was built from ' ~ built_with | map(attribute='name') | join(', ')
            ~ ', and `position` compares its rows with those of ' ~ whole ~ '. If that is the same table, or has other'
            ~ ' keys and all messages have their place in the log, do nothing. Else its offsets begin again, and its'
            ~ ' changes sort before those that are known, or replace them: read both through a view that numbers them,'
            ~ ' put that number first in `position`, and run `dbt run --full-refresh --select ' ~ model.name ~ '+`.'
        ) -%}
    {%- endif -%}
    {%- for name, now in dict({'unique_key': unique_key | map('lower') | sort | join(', ')}, **made_by).items() -%}
        {%- set before = [] -%}
        {%- for one in own or (built_with if name == 'unique_key' else []) -%}
            {%- do before.append(dict({'unique_key': one.key | join(', ')}, **(one.made_by or {})).get(name)) -%}
        {%- endfor -%}
        {%- if before and none not in before and now not in before -%}
            {%- do exceptions.raise_compiler_error(
                'change_stream ' ~ model.name ~ ": the `" ~ name ~ "` of " ~ relation ~ " has changed since " ~ this
                ~ " was built. Restore it, or run `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table"
                ~ " first if rows of the raw table have been deleted. Built with: " ~ before[0] ~ ". Got: " ~ now
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Raises an error if the model has called the macro for the same raw table before. Two calls over one table of
    messages cannot work: a stored row does not say of which source table it is, and one that a call rejects, as it is
    of the other's table or of none, would have the change_id that it has there. -#}
{%- macro _check_called_once(macro_name, relation, table) -%}
    {%- for other in afterimage._noted_intakes() if other.macro == macro_name
        and other.raw_table == afterimage._stored_relation(relation) | string -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ': ' ~ model.name ~ ' reads ' ~ other.raw_table ~ ' twice. Write a model for each source table,'
            ~ ' with its `table`, and unite these in the history. Got: ' ~ other.made_by.table ~ ' and ' ~ table
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The entries of `built_with` that are about this call. A model may read several source tables from one raw table,
    each in a call of its own: the first of `made_by` tells them apart. If none has its value, all of the raw table count. -#}
{%- macro _own_entries(relation, made_by, built_with) -%}
    {%- set of_table = built_with | selectattr('name', 'equalto', relation | string) | list -%}
    {%- set own = [] -%}
    {%- for name, now in (made_by.items() | list)[:1] -%}
        {%- for one in of_table if (one.made_by or {}).get(name) == now -%}
            {%- do own.append(one) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(own or of_table) }}
{%- endmacro -%}


{#- What is remembered, see _remembered_reads; `are_arguments_known` says whether just these are, `is_united` what
    _unites_tables does; `had_wakes`: see _intake; `tables`: which tables this call has read, none if that is not known.
    A copy of the table remembers nothing: it counts as the table. If the raw table was not `read_by` the same arguments
    before, nothing counts as read, and `has_new_rules` says so. These arguments leave rows their ids. -#}
{%- macro _remembered_by_rules(relation, made_by, read_by, new_shape) -%}
    {%- set relation = afterimage._whole(relation) -%}
    {%- set remembered = afterimage._remembered_reads(new_shape) -%}
    {%- set own = afterimage._own_entries(relation, made_by, remembered.built_with) -%}
    {%- set same = own | selectattr('made_by', 'equalto', made_by) | selectattr('read_by', 'equalto', read_by) -%}
    {%- set had_none = (own or remembered.built_with) | rejectattr('woken_by') | list -%}
    {%- set remembered = dict(
        remembered, are_arguments_known=same | list | length > 0,
        is_united=afterimage._unites_tables(relation, remembered.built_with),
        had_wakes=afterimage._tracks_reads() and had_none == [],
        tables=own | selectattr('tables') | sum(attribute='tables', start=[]) or none
    ) -%}
    {%- set changed = [] -%}
    {%- for name, now in read_by.items() -%}
        {%- set before = [] -%}
        {%- for one in own -%}
            {%- do before.append((one.read_by or {}).get(name)) -%}
        {%- endfor -%}
        {%- do changed.append(name) if before and none not in before and now not in before -%}
    {%- endfor -%}
    {%- if not changed -%}
        {{ return(dict(remembered, has_new_rules=false)) }}
    {%- endif -%}
    {#- A change of columns may not have come to its end. -#}
    {%- set altered = {'altered': remembered.read.altered} if 'altered' in remembered.read else {} -%}
    {{ return(dict(
        remembered, has_new_rules=true, read=altered,
        reason='another `' ~ changed | join('`, `') ~ '` was given' if remembered.read else remembered.reason
    )) }}
{%- endmacro -%}


{#- Before a run writes rows by other arguments than those before: notes that the table may have rows by both. The run
    may end early, or read a sample. Whichever the next run has, they are other ones, and it reads all rows. -#}
{%- macro _note_both_rules(target_relation, intakes) -%}
    {%- set built_with = afterimage._built_with() -%}
    {%- for intake in intakes if intake.has_new_rules -%}
        {%- for one in afterimage._own_entries(intake.raw_table, intake.made_by, built_with) if one.read_by -%}
            {%- for name, now in intake.read_by.items() if one.read_by.get(name) not in [none, now] -%}
                {%- do one.read_by.update({name: '(two of them)'}) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do afterimage._set_properties(target_relation, {
        'afterimage.keys': afterimage._as_property(tojson(built_with))
    }) -%}
{%- endmacro -%}
