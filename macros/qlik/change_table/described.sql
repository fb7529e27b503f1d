{#- The CTE `masked`: the changes with their decoded masks. The few masks go to the rows, not the rows to them. -#}
{%- macro _qlik_masked(layout, mask_encoding, has_short_way) -%}
flags as (

    {{ afterimage._decoded_masks(
        '(select distinct change_mask from source_rows where change_mask is not null)', layout.ordinals, layout.columns,
        mask_encoding, layout.header_columns, not layout.mask_is_binary
    ) | indent(4) }}

),

masked as (

    select /*+ broadcast(flags) */
        unmasked.*,
        flags.flagged_columns,
        flags.flags_header,
        flags.unknown_ordinals,
        if(
            unmasked.reject_reason is null
            and unmasked.kind in ('insert', 'update')
            and unmasked.change_mask is not null
            and flags.flagged_columns is null,
            concat('change_mask cannot be decoded: ', {{ layout.mask_as_text }}),
            unmasked.reject_reason
        ) as final_reason

    from {{ '(select * from paired union all select * from plain)' if has_short_way else 'paired' }} as unmasked
    left outer join flags
        on unmasked.change_mask = flags.change_mask

)
{%- endmacro -%}


{#- The CTE `described`: the rows that `_finish` takes. -#}
{%- macro _qlik_described(layout) -%}
{%- set columns = layout.columns -%}
{#- Qlik sets bits of data columns only, so others show a mask that is read wrong. -#}
{%- set header_warning = 'change_mask has bits of header columns: check mask_encoding and header_columns' -%}
described as (

    select
        group_hash,
        change_group,
        is_alone,
        is_orphan,
        image_hash,
        source_time,
        last_time,
        -- A before-image and its update are one change, so they share a letter, and with it an identity.
        concat(change_group, '-', case kind
            when 'before_image' then 'U'
            when 'unknown' then 'X'
            else upper(left(kind, 1))
        end) as identity,
        if(kind <> 'load' and has_seq, change_group, '') as place,
        if(is_orphan, 'update', kind) as kind,
        {{ afterimage._struct(layout.unique_key, 'coalesce(image, before_image).') }} as own_key,
        image,
        before_image,
        if(kind in ('insert', 'update'), flagged_columns, null) as changed_columns,
        {{ afterimage._qlik_absent_columns(columns, layout.unique_key) | indent(8) }} as absent_columns,
        coalesce(source_time, {{ afterimage._sequence_time('change_group') | indent(8) }}) as changed_at,
        transaction_id,
        final_reason as reject_reason,
        if(
            kind <> 'load' and source_time is null,
            {{ afterimage._qlik_time_warning('change_group') | indent(12) }},
            null
        ) as time_warning,
        if(
            size(unknown_ordinals) > 0,
            concat('change_mask has bits past the last column: ', array_join(unknown_ordinals, ', ')),
            null
        ) as mask_warning,
        {{ afterimage._qlik_unflagged_warning(columns, layout.types) | indent(8) }} as unflagged_warning,
        {{ afterimage._qlik_delete_warning('flagged_columns', layout.unique_key, 'change_mask') | indent(8) }} as delete_warning,
        nullif({{ afterimage._texts_where([
            ['time_warning is not null', 'time_warning'],
            ['mask_warning is not null', 'mask_warning'],
            ['flags_header', afterimage._literal(header_warning)],
            ['unflagged_warning is not null', 'unflagged_warning'],
            ['delete_warning is not null', 'delete_warning'],
        ]) }}, cast(array() as array<string>)) as warnings,
        source_rows,
        has_before_image,
        has_after_image

    from masked

)
{%- endmacro -%}


{#- Columns of an update that are NULL although the mask says they did not change: the source did not log them
    (Qlik, "Limitations and considerations" of the Oracle source: columns without supplemental logging, LOBs above
    all, are NULL in the change table unless updated). NULL if there is no such column, or no mask. -#}
{%- macro _qlik_absent_columns(columns, unique_key) -%}
    {%- set columns = columns | reject('in', unique_key) | list -%}
    {%- if not columns -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
    {%- set is_absent = '(image.{column} is null and not array_contains(flagged_columns, {name}))' -%}
if(
    kind = 'update'
    and (
        {{ afterimage._each(columns, is_absent) | join(' or\n        ') }}
    ),
    array_compact(array(
        {{ afterimage._each(columns, 'if(' ~ is_absent ~ ', {name}, null)') | join(',\n        ') }}
    )),
    null
)
{%- endmacro -%}


{#- The warning for columns that differ from the before-image but are not flagged by the mask. NULL on either side
    contradicts nothing: Qlik writes it for values it did not capture. -#}
{%- macro _qlik_unflagged_warning(columns, types) -%}
    {%- set unflagged = [] -%}
    {%- for column in columns -%}
        {%- set name = afterimage._literal(column) -%}
        {%- do unflagged.append(
            'if(' ~ afterimage._qlik_differs(column, types) ~ ' and not array_contains(flagged_columns, ' ~ name ~ '), '
            ~ name ~ ', null)'
        ) -%}
    {%- endfor -%}
if(
    kind = 'update' and flagged_columns is not null and before_image is not null,
    concat(
        'change_mask does not flag what changed: ',
        nullif(concat_ws(', ', {{ unflagged | join(', ') }}), '')
    ),
    null
)
{%- endmacro -%}


{#- The condition that a column's value differs from the before-image; NULL if either is NULL. -#}
{%- macro _qlik_differs(column, types, after='image') -%}
    {%- set name = '.' ~ afterimage._quote(column) -%}
    {{ return(
        afterimage._comparable(after ~ name, types[column]) ~ ' <> '
        ~ afterimage._comparable('before_image' ~ name, types[column])
    ) }}
{%- endmacro -%}


{#- The warning for a change without a timestamp of its own. -#}
{%- macro _qlik_time_warning(change_seq) -%}
if(
    {{ afterimage._sequence_time(change_seq) | indent(4) }} is null,
    'changed_at is unknown: neither timestamp nor change_seq has it',
    'changed_at is taken from change_seq'
)
{%- endmacro -%}


{#- The warning for a delete whose mask flags other columns than the key's. Qlik, "Change Tables": a delete flags only
    the columns of the primary key or unique index. A mask without bits says nothing. `flagged` are the columns of the
    mask, in the order of the table. -#}
{%- macro _qlik_delete_warning(flagged, unique_key, mask) -%}
if(
    kind = 'delete' and size({{ flagged }}) > 0 and {{ flagged }} <> {{ afterimage._string_array(unique_key) }},
    concat(
        '{{ mask }} of a delete flags ', array_join({{ flagged }}, ', '), ', and unique_key is ',
        {{ afterimage._literal(unique_key | join(', ')) }}
    ),
    null
)
{%- endmacro -%}
