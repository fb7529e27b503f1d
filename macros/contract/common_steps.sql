{#- Steps that several dialects share: copies of a row, pairs of rows, before-image columns, keys, masks. -#}


{#- The CTE `distinct_rows`: each row once, with the number of its `copies`. `by` is what the copies of a row have in
    common, `first` the order that chooses one of them. `last_time` is the latest `time` of the copies. If all later
    windows are within some of these columns, too, `together` names them: the rows are then shuffled once. -#}
{%- macro _distinct_rows(rows, by, first, time=none, together=none) -%}
distinct_rows as (

    select *
    from (
        select
            *,
            row_number() over (partition by {{ by }} order by {{ first }}) as copy_number,
            count(*) over (partition by {{ by }}) as copies
            {%- if time %},
            max({{ time }}) over (partition by {{ by }}) as last_time
            {%- endif %}

        from {{ '(select * from ' ~ rows ~ ' distribute by ' ~ together ~ ') as gathered' if together else rows }}
    ) as counted
    where copy_number = 1

)
{%- endmacro -%}


{#- The CTE `paired_rows`, for a source that writes an update as two rows: the row before it (`is_before`) and the row
    after it. The second gets the first as `partner`, a struct of the `fields`; the first is left out. Two rows of a
    group are a pair if they have the same `own_key` and `form`, unless only a row that changed its key is two rows
    (`only_moves`). Rows with different keys are a pair only if the rows before have one key, and so have all others. -#}
{%- macro _paired_rows(group, form, fields, only_moves=false) -%}
{%- set may_pair = 'coalesce(has_one_key_each, false)' if only_moves else 'true' %}
neighbours as (

    select
        *,
        if(
            is_before or not {{ may_pair }}, null, lag(if(is_before, struct({{ fields | join(', ') }}), null)) over in_pair
        ) as partner,
        is_before and {{ may_pair }} and coalesce(lead(not is_before) over in_pair, false) as is_partner

    from (
        select
            *,
            {{ afterimage._has_one_key_each('is_before', 'not is_before', 'own_key', group) }} as has_one_key_each

        from distinct_rows
    ) as rows_of_group
    window in_pair as (
        partition by {{ group }}, {{ form }}, if(has_one_key_each, null, own_key)
        order by is_before desc, row_id
    )

),

paired_rows as (

    select *
    from neighbours
    where not is_partner

)
{%- endmacro -%}


{#- Whether the rows before an update have one key in their group, and so have the rows after it. Then it is certain
    which key became which. Keys count, not rows: a row may come again in other words, such as a padded CHAR. -#}
{%- macro _has_one_key_each(is_before, is_after, key, group) -%}
    {%- set sides = [] -%}
    {%- for condition in [is_before, is_after] -%}
        {%- set of_group = '(if(' ~ condition ~ ', ' ~ key ~ ', null)) over (partition by ' ~ group ~ ')' -%}
        {%- do sides.append('min' ~ of_group ~ ' = max' ~ of_group) -%}
    {%- endfor -%}
    {{ return(sides | join(' and ')) }}
{%- endmacro -%}


{#- Column name in lower case -> the column with its before-image: the prefix and the name, of the same type or one that
    the other widens to (a table may widen its columns one by one), and not declared as a data column by the caller. A
    before-image column has no before-image itself, so shorter names go first. -#}
{%- macro _before_columns(found, types, columns, prefix) -%}
    {%- set images = {} -%}
    {%- if not prefix -%}
        {{ return(images) }}
    {%- endif -%}
    {%- set given = columns | map('lower') | list -%}
    {%- set taken = [] -%}
    {%- for size in found | map('length') | unique | sort -%}
        {%- for name in found if name | length == size and (name | lower).startswith(prefix | lower) -%}
            {%- set plain = name[prefix | length:] | lower -%}
            {%- set own, other = types[name | lower], types[plain] -%}
            {%- set matches = plain in types and (
                own == other
                or afterimage._widenings(own, other, []) is not none
                or afterimage._widenings(other, own, []) is not none
            ) -%}
            {%- if matches and plain not in taken and name | lower not in given -%}
                {%- do images.update({plain: name}) -%}
                {%- do taken.append(name | lower) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(images) }}
{%- endmacro -%}


{#- The row before an update, as far as before-image columns show it. A key column without one counts as unchanged,
    any other column as unknown. `types` are by names in lower case; `image_of` is the before-image of each column. -#}
{%- macro _before_image(columns, unique_key, types, image_of) -%}
    {%- if not image_of -%}
        {{ return('if(true, null, ' ~ afterimage._struct(columns) ~ ')') }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- if column in image_of -%}
            {%- set value = afterimage._before_value(column, types, image_of) -%}
        {%- elif column in unique_key -%}
            {%- set value = afterimage._quote(column) -%}
        {%- else -%}
            {%- set value = 'cast(null as ' ~ types[column | lower] ~ ')' -%}
        {%- endif -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ value) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- What a before-image column holds, in the type of its column. -#}
{%- macro _before_value(column, types, image_of) -%}
    {%- set value, type = afterimage._quote(image_of[column]), types[column | lower] -%}
    {{ return(value if types[image_of[column] | lower] == type else 'cast(' ~ value ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}


{#- The condition that an image has NULL in its key. -#}
{%- macro _has_null_key(unique_key, image='image') -%}
    {{ return('(' ~ afterimage._each(unique_key, image ~ '.{column} is null') | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- The reject reason of a row with NULL in its key. -#}
{%- macro _null_key_reason(unique_key) -%}
    {{ return(afterimage._literal('NULL in the key (' ~ unique_key | join(', ') ~ ')')) }}
{%- endmacro -%}


{#- The columns of landed messages by their names in lower case; `value` is the one with the message. -#}
{%- macro _message_columns(macro_name, relation, value) -%}
    {%- set found = {} -%}
    {%- for column in afterimage._existing_columns(macro_name, relation) -%}
        {%- do found.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known(macro_name, 'value', [value], found.values() | map(attribute='name') | list) -%}
    {%- set type = found[value | lower].type -%}
    {%- if type not in ['string', 'binary'] -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `value` must be a column of type string (JSON) or binary (Avro). Got: " ~ value ~ " " ~ type
        ) -%}
    {%- endif -%}
    {{ return(found) }}
{%- endmacro -%}


{#- A query in brackets for the commit times that the model's table has: those of the transactions that the run reads.
    The table of commit times may no longer have them. None in a run that builds it. -#}
{%- macro _known_commits(intake) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
(
    select
        known.transaction_id,
        max(known.changed_at) as committed_at

    from {{ this }} as known
    where known.changed_at is not null{{ ' and (' ~ intake.known_within ~ ')' if intake.known_within }}
    group by known.transaction_id
)
    {%- endset -%}
    {{ return(query) }}
{%- endmacro -%}
