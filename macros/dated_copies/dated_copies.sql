{#- Full copies of a table, each with a date -> change contract. Arguments: dated_copies.yml. -#}
{%- macro dated_copies(relation, unique_key, copy_column, columns=none) -%}
    {%- set macro_name = 'dated_copies' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_text(macro_name, 'copy_column', copy_column) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- do afterimage._check_columns(macro_name, 'relation', relation, [copy_column]) -%}
    {%- set types = afterimage._column_types(afterimage._relation_columns(relation)) -%}
    {%- set date = afterimage._match_column_case([copy_column], types.keys() | list)[0] -%}
    {%- set sampled_by = relation.event_time_filter.field_name if relation.event_time_filter -%}
    {%- if sampled_by and sampled_by | replace('`', '') | lower != date | lower -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ': a sample must have whole copies, else rows look as if they were deleted. Set the `event_time` of '
            ~ relation ~ ' to `copy_column`, ' ~ date ~ '. Got: ' ~ sampled_by
        ) -%}
    {%- endif -%}
    {%- set found = types.keys() | reject('equalto', date) | list -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set columns = afterimage._match_column_case(columns or found, found) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns) -%}
    {%- set unique_key = afterimage._in_column_order(unique_key, columns) -%}
    {%- set new_shape = afterimage._check_drift(macro_name, relation, columns) -%}
    {#- A copy's place is its time, as a text that sorts like it: that of a year of five digits would not. -#}
    {%- set column = afterimage._quote(date) -%}
    {#- Spark casts neither 20240131 nor 2024/01/31. -#}
    {%- set dashed = 'regexp_replace(trim(cast(' ~ column
        ~ " as string)), '^([0-9]{4})/?([0-9]{2})/?([0-9]{2})$', '$1-$2-$3')" -%}
    {%- set may_be_digits = modules.re.fullmatch('string|int|bigint|decimal[(][0-9]+,0[)]', types[date]) -%}
    {%- set time = afterimage._landed_time(dashed, 'string') if may_be_digits
        else afterimage._landed_time(column, types[date]) -%}
    {%- set time = 'if(' ~ time ~ " between timestamp '0001-01-01' and timestamp '9999-12-31 23:59:59.999999', " ~ time
        ~ ', null)' -%}
    {%- set intake = afterimage._intake(macro_name, unique_key, [{
        'relation': relation,
        'place': 'date_format(' ~ time ~ ", 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
        'has_place': time ~ ' is not null',
        'reach': 26,
        'column': column,
        'removals': true,
    }], new_shape, made_by={'copy_column': date | lower}) -%}
    {%- set own = afterimage._noted_intakes() | selectattr('macro', 'equalto', macro_name) | list -%}
    {%- if own | length > 1 -%}
        {#- What the model's table has of a copy could be of either. -#}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ': `relation` must be the only one in a model. Land all copies in one raw table, or unite them in'
            ~ ' a view, and read that. Write a model for each only if these are copies of different rows. Got: '
            ~ own | map(attribute='name') | join(', ')
        ) -%}
    {%- endif -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set plan = none -%}
    {%- if afterimage._is_incremental() -%}
        {%- set plan = afterimage._copies_plan(macro_name, intake, types[date], unique_key) -%}
    {%- else -%}
        {%- do afterimage._copies_check_sizes(macro_name, intake.sides[0], unique_key) -%}
    {%- endif %}
with

{{ afterimage._copies_rows(intake.sides[0], plan, columns, types, unique_key) }},

{{ afterimage._distinct_rows(
    'classified_rows', by='own_key, place, if(place is null, landed_date, null), row_id', first='landed_date'
) }},

{{ afterimage._copies_compared() }},

{{ afterimage._copies_changes(plan, columns, types) }},

{{ afterimage._finish(
    intake, columns, types, unique_key,
    lacks=['changed_columns', 'absent_columns', 'transaction_id', 'changed_by'],
    known={'within': plan.known_within if plan else none}
) }}
{%- endmacro -%}
