{#- The pieces of SQL that openedge_change_table is made of. -#}

{#- Adds to raw rows what they are: `kind`, `change_group` (the sequence; a malformed row is a group of its own) and
    `row_hash`. -#}
{%- macro _openedge_identified(rows, values) -%}
select
    *,
    if(
        has_seq,
        lpad(sequence, 19, '0'),
        concat('unordered-', md5({{ afterimage._exact_json('struct(*)') }}))
    ) as change_group,
    {{ afterimage._hash_of_values(values) | indent(4) }} as row_hash

from (
    select
        *,
        -- At the most 19 digits, as in an int64.
        coalesce(sequence rlike '^[0-9]{1,19}$', false) as has_seq,
        case operation
            when '1' then 'insert'
            when '2' then 'delete'
            when '3' then 'before_image'
            when '4' then 'update'
            when '5' then 'field deleted'
            when '6' then 'partition dropped'
            when '7' then 'partition truncated'
            when '8' then 'partition deallocated'
            when '9' then 'tenant partition deallocated'
            when '10' then 'tenant partition dropped'
            when '11' then 'partition merged'
            when '12' then 'field added'
            else 'unknown'
        end as kind

    from {{ rows }}
) as told
-- All windows and joins behind this one are by group, or by group and more, so one exchange serves them all.
distribute by change_group
{%- endmacro -%}


{%- macro _openedge_resets() -%}
    {{ return(
        "('partition dropped', 'partition truncated', 'partition deallocated', 'tenant partition deallocated',"
        ~ " 'tenant partition dropped')"
    ) }}
{%- endmacro -%}


{#- Why nobody can tell what a row is, as branches of a `case`. -#}
{%- macro _openedge_unread_reasons() -%}
when not has_seq
    then concat('_Change-Sequence is not a whole number: ', coalesce(concat('"', sequence, '"'), 'NULL'))
when kind = 'unknown'
    then concat('unknown operation: ', coalesce(concat('"', operation, '"'), 'NULL'))
{%- endmacro -%}


{#- The declared order of changes with one sequence. -#}
{%- macro _openedge_precedence() -%}
case kind when 'insert' then 1 when 'update' then 2 when 'before_image' then 2 when 'delete' then 3 else 4 end
{%- endmacro -%}


{#- Whether a column is the one that a split record broke in: its two pieces belong together. -#}
{%- macro _openedge_is_broken(layout, field, column) -%}
    {%- if field.is_array -%}
        {{ return(
            'is_fragmented and highest_position = ' ~ field.number ~ ' and split_index = '
            ~ (field.names.index(column) + 1)
        ) }}
    {%- elif layout.types[column] in ['string', 'binary'] -%}
        {{ return('(is_fragmented or split_index > 0) and highest_position = ' ~ field.number) }}
    {%- endif -%}
    {{ return('false') }}
{%- endmacro -%}


{#- The struct of a record that was split in two: each column from the part that has it. -#}
{%- macro _openedge_joined(layout) -%}
    {%- set columns = [] -%}
    {%- for field in layout.fields -%}
        {%- for name in field.columns -%}
            {%- do columns.append({'name': name, 'field': field}) -%}
        {%- endfor -%}
    {%- endfor -%}
named_struct(
    {%- for column in columns %}
    {%- set is_text = layout.types[column.name] == 'string' %}
    {%- set first = 'image.' ~ afterimage._quote(column.name) %}
    {%- set second = 'next_part.' ~ first %}
    {{ afterimage._literal(column.name) }},
    {%- if is_text or layout.types[column.name] == 'binary' %}
    case
        {%- if is_text and not column.field.is_array %}
        when split_index > 0 and highest_position = {{ column.field.number }}
            then coalesce(whole_array, {{ first }}, {{ second }})
        {%- endif %}
        when {{ afterimage._openedge_is_broken(layout, column.field, column.name) }}
            then coalesce(concat({{ first }}, {{ second }}), {{ first }}, {{ second }})
        else coalesce({{ first }}, {{ second }})
    end
    {%- else %}
    coalesce({{ first }}, {{ second }})
    {%- endif %}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- The array field that a record broke in, where it was landed as text: the elements that one part holds
    (a `;` parts them unless a `~` of its own stands before it: OpenEdge SQL Reference, "PRO_ARR_ESCAPE"). -#}
{%- macro _openedge_array_elements(layout, part) -%}
    {%- set texts = [] -%}
    {%- for field in layout.fields if not field.is_array and field.columns -%}
        {%- if layout.types[field.columns[0]] == 'string' -%}
            {%- do texts.append(field) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not texts -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    is_split and split_index > 0,
    split(
        case highest_position
            {%- for field in texts %}
            when {{ field.number }} then {{ part }}.{{ afterimage._quote(field.columns[0]) }}
            {%- endfor %}
        end,
        '(?<=(?:^|[^~])(?:~~){0,99});'
    ),
    null
)
{%- endmacro -%}


{#- Why two parts are no record; NULL where they are. -#}
{%- macro _openedge_split_reason(layout) -%}
    {%- set text_fields = [] -%}
    {%- set conflicts = [] -%}
    {%- for field in layout.fields -%}
        {%- if layout.types[field.names[0]] in ['string', 'binary'] -%}
            {%- do text_fields.append(field.number) -%}
        {%- endif -%}
        {%- for column in field.columns -%}
            {%- set first = 'image.' ~ afterimage._quote(column) -%}
            {%- do conflicts.append(
                'if(not (' ~ afterimage._openedge_is_broken(layout, field, column) ~ ') and ' ~ first
                ~ ' <> next_part.' ~ first ~ ', ' ~ afterimage._literal(column) ~ ', null)'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
case
    when is_fragmented and highest_position not in ({{ text_fields | join(', ') or 0 }})
        then concat('split record: field ', highest_position, ' is not text, so it cannot be in both parts')
    when array_size(first_elements) < split_index - if(is_fragmented, 0, 1)
        then concat('split record: the first part ends before array element ', split_index)
    else concat('split record: both parts have a value for ', nullif(array_join(array_compact(array(
        {{ conflicts | join(',\n        ') }}
    )), ', '), ''))
end
{%- endmacro -%}


{#- Whether a lone row with a position is half a record, and not one that the SQL engine has put together: its columns
    on one side of the position are all NULL. A second part has none before it; of one that breaks in the last column
    that has a value nothing stands behind the position either. -#}
{%- macro _openedge_is_half(layout, split_order) -%}
    {%- set before = [] -%}
    {%- set after = [] -%}
    {%- for field in layout.fields -%}
        {%- for column in field.columns -%}
            {%- set value = 'image.' ~ afterimage._quote(column) -%}
            {%- do before.append('(position > ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
            {%- do after.append('(position < ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
        {%- endfor -%}
    {%- endfor -%}
not (
    ({{ before | join(' or ') }})
    {%- if split_order == 'zero_last' %}
    and ({{ after | join(' or ') }})
    {%- endif %}
)
{%- endmacro -%}


{#- Decodes each distinct field map once. Text of 0 and 1 is bits, other text the names that the SQL helper
    CDC_get_changed_columns gives. -#}
{%- macro _openedge_field_maps(layout) -%}
    {%- set encoding = layout.field_map_encoding -%}
    {%- set is_binary = layout.field_map_type == 'binary' -%}
    {%- set bits = encoding or ('bytes' if is_binary else 'bits') -%}
    {%- set all_names = [] -%}
    {%- for field in layout.fields -%}
        {%- do all_names.append(field.name | lower | replace('-', '_')) -%}
    {%- endfor -%}
select
    field_map,
    flatten(array_compact(array(
        {%- for field in layout.fields if field.columns %}
        if(
            array_contains(positions, {{ field.number }})
            or array_contains(field_names, {{ afterimage._literal(field.name | lower | replace('-', '_')) }}),
            {{ afterimage._string_array(field.columns) }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
    ))) as flagged_columns,
    if(
        positions is not null,
        cast(filter(positions, k -> k > {{ layout.fields | length }}) as array<string>),
        array_except(field_names, {{ afterimage._string_array(all_names) }})
    ) as unknown_fields,
    positions is not null or field_names is not null as is_decoded

from (
    select
        field_map,
        positions,
        {%- if encoding == 'names' or (encoding is none and not is_binary) %}
        if(
            positions is null,
            transform(
                filter(split(field_map, ';'), name -> trim(name) <> ''),
                name -> lower(replace(trim(name), '-', '_'))
            ),
            null
        ) as field_names
        {%- else %}
        cast(null as array<string>) as field_names
        {%- endif %}

    from (
        select
            field_map,
            {%- if encoding == 'names' %}
            cast(null as array<int>) as positions
            {%- else %}
            decode_field_map(field_map, '{{ bits }}', '{{ layout.field_map_bit_order }}') as positions
            {%- endif %}

        from (
            select distinct field_map
            from tracking_rows
            where {{ 'length(field_map) > 0' if is_binary else "trim(field_map) <> ''" }}
        ) as distinct_maps
    ) as positioned
) as decoded
{%- endmacro -%}


{#- Why a change without values is none that could be applied: WHEN branches. -#}
{%- macro _openedge_no_data_reasons(layout) -%}
when kind in ('insert', 'update', 'delete') and not has_change_row
    {%- if layout.policy_level in [2, 3] %}
    then concat(
        'change row missing: the tracking table has this change, of record ',
        coalesce(cast(tracking.record_id as string), '?')
    )
    {%- else %}
    then concat(
        'row touched: record ', coalesce(cast(tracking.record_id as string), '?'),
        ', of which no values were recorded'
    )
    {%- endif %}
when kind in ('field deleted', 'field added') then concat(kind, ': this changed the table, and no row')
when kind = 'partition merged' then concat(kind, ': partition ', coalesce(cast(tracking.partition_id as string), '?'))
{%- if layout.partition_resets == 'reject' %}
when kind in {{ afterimage._openedge_resets() }}
    then concat(
        kind, ': the rows of partition ', coalesce(cast(tracking.partition_id as string), '?'),
        ' are gone, and nothing says which'
    )
{%- endif %}
{%- endmacro -%}


{%- macro _openedge_warnings(layout) -%}
nullif(array_compact(array(
    if(changed_at is null, '_Time-Stamp is missing or cannot be read', null),
    if(is_tied, 'another change of this key has the same change_seq', null),
    if(
        kind = 'update' and size(unknown_fields) > 0,
        concat('the field map has what is no field: ', array_join(unknown_fields, ', ')),
        null
    ),
    if(
        kind = 'update' and not is_decoded,
        concat(
            'the field map cannot be decoded: ',
            {{ 'hex(field_map)' if layout.field_map_type == 'binary' else 'field_map' }}
        ),
        null
    ),
    if(
        size(array_except(differing_columns, changed_columns)) > 0,
        concat(
            'the field map leaves out what changed: ',
            array_join(array_except(differing_columns, changed_columns), ', ')
        ),
        null
    ),
    if(
        kind = 'update' and image is not null and before_image is null
        and arrays_overlap(changed_columns, {{ afterimage._string_array(layout.unique_key) }}),
        'the key changed, but without a before-image the old key is unknown',
        null
    ),
    {%- if layout.policy_level == 3 %}
    if(
        kind = 'update' and image is not null and before_image is null and before_reason is null,
        'no before-image, though policy level 3 records one',
        null
    ),
    {%- endif %}
    {%- if layout.tracking_relation is not none %}
    if(has_change_row and has_seq and tracked_kind is null, 'no row in the tracking table', null),
    {%- endif %}
    if(
        has_change_row and if(tracked_kind = 'before_image', 'update', tracked_kind)
        <> if(kind = 'before_image', 'update', kind),
        concat('the tracking table has another operation: ', coalesce(tracked_operation, 'NULL')),
        null
    ),
    if(before_reason is not null, concat('before-image left out: ', before_reason), null)
)), cast(array() as array<string>))
{%- endmacro -%}


{#- `a.x is null or a.y is null`. -#}
{%- macro _openedge_any_null(prefix, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(prefix ~ '.' ~ afterimage._quote(column) ~ ' is null') -%}
    {%- endfor -%}
    {{ return(conditions | join(' or ')) }}
{%- endmacro -%}
