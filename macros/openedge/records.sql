{#- The CTEs from `changed_rows` to `assembled`: each record once, and whole. A record near 32,000 bytes is written
    as two. Only the SQL engine puts them together again; ABL dumps hold both. -#}
{%- macro _openedge_records(layout, split_order) -%}
{%- set of_record = 'partition by change_group, operation, is_superseded' -%}
{%- set in_order = of_record ~ ' order by (position = 0) '
    ~ ('desc' if split_order == 'zero_first' else 'asc') ~ ', position asc, row_hash asc' -%}
{#- No key alone fills a record, so one that broke after a field has more before the break. One that broke within a
    field may have only its key before that. -#}
{%- set filled = 'if(fragment = 0 and array_index = 0, ' ~ afterimage._openedge_filled_beside_key(layout)
    ~ ', filled_fields)' if split_order == 'zero_first' else 'filled_fields' -%}
-- A row delivered twice counts once. Its unique key is (_Change-Sequence, _Operation, _Continuation-Position).
{{ afterimage._distinct_rows(
    'changed_rows', by='change_group, operation, position, row_hash',
    first='array_min(filled_fields) asc nulls last, time asc nulls last, transaction_id asc nulls last'
) }},

{{ afterimage._openedge_forms(layout, split_order) }},

parts as (

    select
        *,
        count(*) over ({{ of_record }}) as parts,
        min(position) over ({{ of_record }}) as lowest_position,
        max(position) over ({{ of_record }}) as highest_position,
        row_number() over ({{ in_order }}) as part,
        lead(struct(image, full_key, array_index, fragment, form_copies, has_forms)) over ({{ in_order }}) as next_part

    from forms
    where form = 1 or is_superseded

),

joined_parts as (

    select
        *,
        -- The position says after which field the record broke, but not which part holds that field.
        kind in ('insert', 'update', 'delete', 'before_image') and has_seq
        and parts = 2
        and lowest_position <> highest_position as is_split,
        greatest(array_index, next_part.array_index) as split_index,
        greatest(fragment, next_part.fragment) = 1 as is_fragmented,
        -- An array that the record broke in may land as one text.
        {{ afterimage._openedge_array_elements(layout, 'image') | indent(8) }} as first_elements,
        {{ afterimage._openedge_array_elements(layout, 'next_part.image') | indent(8) }} as second_elements,
        -- The second part has either only its own elements, or all elements with the first part's left empty.
        if(
            array_size(first_elements) = array_size(second_elements)
            and split_index <= array_size(second_elements)
            and array_size(array_except(slice(second_elements, 1, split_index - 1), array('', '?'))) = 0,
            slice(second_elements, split_index, array_size(second_elements)),
            second_elements
        ) as rest_elements,
        array_join(
            if(
                is_fragmented,
                concat(
                    slice(first_elements, 1, split_index - 1),
                    array(concat(try_element_at(first_elements, split_index), get(rest_elements, 0))),
                    slice(rest_elements, 2, array_size(rest_elements))
                ),
                concat(slice(first_elements, 1, split_index - 1), rest_elements)
            ),
            ';'
        ) as whole_array,
        -- What SQL has joined may have position 0. Then it has values from after the break, too.
        {{ afterimage._openedge_passes_break(layout) }} as is_first_whole

    from parts

),

assembled as (

    select
        change_group,
        has_seq,
        sequence,
        operation,
        kind,
        time,
        transaction_id,
        row_hash,
        if(is_split, {{ afterimage._openedge_joined(layout) | indent(8) }}, image) as image,
        is_superseded,
        -- The form that counts has the rows of all.
        if(is_superseded, 0, form_copies) + if(is_split, next_part.form_copies, 0) as row_count,
        not is_superseded and (has_forms or (is_split and next_part.has_forms)) as has_forms,
        is_split,
        case
            when is_superseded then 'superseded: another form of this part counts'
            when is_split
                then {{ afterimage._openedge_split_reason(layout) | indent(16) }}
            when parts > 1 and highest_position > 0
                then concat('split record in ', parts, ' rows: two parts at the most, and with different positions')
            when position <> 0 and not is_whole and {{ afterimage._openedge_is_half(split_order, filled) }}
                then 'half of a split record: its other part is not there'
        end as split_reason

    from joined_parts
    where not (is_split and part = 2)

)
{%- endmacro -%}


{#- The struct of a split record: each column from the part that has it. -#}
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
    {%- set trimmed = ['rtrim(' ~ first ~ ')', 'rtrim(' ~ second ~ ')'] if is_text else [first, second] %}
    {{ afterimage._literal(column.name) }},
    {%- if is_text or layout.types[column.name] == 'binary' %}
    case
        {%- if is_text and not column.field.is_array %}
        when split_index > 0 and highest_position = {{ column.field.number }}
            then coalesce(whole_array, {{ first }}, {{ second }})
        {%- endif %}
        when {{ afterimage._openedge_is_broken(layout, column.field, column.name) }}
            -- What SQL has put together has a key, and begins with the first part, or ends with the second.
            then coalesce(
                case
                    when next_part.full_key is not null and startswith({{ second }}, {{ first }}) then {{ second }}
                    when is_first_whole and endswith({{ trimmed[0] }}, {{ trimmed[1] }}) then {{ first }}
                    else concat({{ first }}, {{ second }})
                end,
                {{ first }},
                {{ second }}
            )
        else coalesce({{ first }}, {{ second }})
    end
    {%- else %}
    coalesce({{ first }}, {{ second }})
    {%- endif %}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- Whether a split record broke within this column, so that its two pieces belong together. -#}
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


{#- Whether the first of two parts has a value of a field behind the one that the record broke in. A part may have its
    key. -#}
{%- macro _openedge_passes_break(layout) -%}
    {%- set values = [] -%}
    {%- for field in layout.fields -%}
        {%- for name in field.columns if name not in layout.unique_key -%}
            {%- set value = 'image.' ~ afterimage._quote(name) -%}
            {%- do values.append('(highest_position < ' ~ field.number ~ ' and ' ~ (
                "coalesce(rtrim(" ~ value ~ "), '') <> ''" if layout.types[name] == 'string' else value ~ ' is not null'
            ) ~ ')') -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return('(' ~ (values or ['false']) | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- Why two parts do not make a record; NULL if they do. -#}
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


{#- The elements of the split array field that one part holds, if the array landed as text. A `;` separates elements
    unless a `~` of its own precedes it (OpenEdge SQL Reference, "PRO_ARR_ESCAPE"). -#}
{%- macro _openedge_array_elements(layout, part) -%}
    {%- set texts = [] -%}
    {%- for field in layout.fields
        if not field.is_array and field.columns and layout.types[field.columns[0]] == 'string' -%}
        {%- do texts.append(field) -%}
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
