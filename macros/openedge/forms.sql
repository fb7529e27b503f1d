{#- The CTE `forms`: which rows are one part of a record in other words, and which are the whole record, as the SQL
    engine gives it. -#}
{%- macro _openedge_forms(layout, split_order) -%}
{%- set of_operation = 'partition by change_group, operation' -%}
{%- set same_part = of_operation ~ ', if(may_be_split, null, row_hash),'
    ~ ' if(has_whole, null, position), if(has_whole, null, own_key)' -%}
{%- set key = afterimage._struct(layout.unique_key, 'image.') -%}
{%- set in_order = 'order by is_whole desc, broken_length asc nulls last, row_hash asc' -%}
-- A part may come again in other words, and both parts as the one row that the SQL engine makes of them. One form of
-- each part counts; if there is a whole record, it counts instead of all parts. Rows of other keys are no forms of a
-- part. First parts that landed alone were changes, since nothing told that they are parts: all but one are
-- `superseded` now.
forms as (

    select
        *,
        row_number() over ({{ same_part }} {{ in_order }}) as form,
        count(*) over ({{ same_part }}) > 1 as has_forms,
        sum(copies) over ({{ same_part }}) as form_copies,
        may_be_split
        and position = 0
        and row_number() over ({{ same_part }}, position = 0 {{ in_order }}) > 1 as is_superseded

    from (
        select
            *,
            may_be_split
            and bool_or(is_whole) over ({{ of_operation }})
            and min(full_key) over ({{ of_operation }}) = max(full_key) over ({{ of_operation }}) as has_whole

        from (
            select
                *,
                kind in ('insert', 'update', 'delete', 'before_image') and has_seq
                and break_position > 0 as may_be_split,
                position <> 0
                and full_key is not null
                and {{ afterimage._openedge_is_whole(layout, split_order) | indent(16) }} as is_whole,
                {{ afterimage._openedge_broken_length(layout) | indent(16) }} as broken_length

            from (
                -- An alias that is used beside itself would cost some of the hundred rounds that Spark resolves in.
                select
                    *,
                    {{ key }} as own_key,
                    if({{ afterimage._has_null_key(layout.unique_key) }}, null, {{ key }}) as full_key,
                    max(position) over ({{ of_operation }}) as break_position,
                    max(if(position = 0, image, null)) over ({{ of_operation }}) as first_part,
                    max(if({{ afterimage._has_null_key(layout.unique_key) }}, position, null)) over ({{ of_operation }})
                        as keyless_position

                from distinct_rows
            ) as rows_by_first_part
        ) as keyed_rows
    ) as known_forms

)
{%- endmacro -%}


{#- Whether a row with a position and a key is the whole record. A second part may have its key, and be filled with
    what the first one has. If the record broke within a field of which the first part has a piece, that field tells: in
    the whole record it begins as in the first part. Without a first part, the row without a key is the second one. -#}
{%- macro _openedge_is_whole(layout, split_order) -%}
{%- if split_order == 'zero_first' -%}
coalesce(
    if(
        fragment <> 0 or array_index <> 0,
        {{ afterimage._openedge_continues(layout) | indent(8) }},
        null
    ),
    not ({{ afterimage._openedge_is_half(split_order, afterimage._openedge_filled_beside_key(layout)) }})
    or ((fragment <> 0 or array_index <> 0) and first_part is null and keyless_position <=> position)
)
and not {{ afterimage._openedge_contradicts(layout) }}
{%- else -%}
not ({{ afterimage._openedge_is_half(split_order) }})
{%- endif -%}
{%- endmacro -%}


{#- Whether a lone row with a position is half a record, and not one that the SQL engine has put together: its fields
    on one side of the position are all NULL. A second part has no values before the position, and none at it if the
    record broke after that field. A record that breaks in its last column with a value has none after it either. -#}
{%- macro _openedge_is_half(split_order, filled='filled_fields') -%}
{%- if split_order == 'zero_first' -%}
not coalesce(array_min({{ filled }}) < position + if(fragment = 0 and array_index = 0, 1, 0), false)
{%- else -%}
not coalesce(array_min({{ filled }}) <= position and array_max({{ filled }}) > position, false)
{%- endif -%}
{%- endmacro -%}


{#- The fields that have a value, without those of the key: a second part may have its key. -#}
{%- macro _openedge_filled_beside_key(layout) -%}
    {%- set key_fields = [] -%}
    {%- for field in layout.fields if field.columns | select('in', layout.unique_key) | list -%}
        {%- do key_fields.append(field.number) -%}
    {%- endfor -%}
    {{ return('array_except(filled_fields, array(' ~ key_fields | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Whether a row that has values from before the break has others than a first part of this key: such a row is not the
    whole record. (The field that the record broke in may have another form there.) -#}
{%- macro _openedge_contradicts(layout) -%}
    {%- set differences = [] -%}
    {%- for field in layout.fields -%}
        {%- for name in field.columns -%}
            {%- do differences.append(
                '(' ~ field.number ~ ' < position + if(fragment = 0 and array_index = 0, 1, 0) and '
                ~ afterimage._openedge_differs(layout, name) ~ ')'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return('(' ~ (differences or ['false']) | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- Whether a row has in the field that the record broke in what the first part has there; NULL if that has nothing. -#}
{%- macro _openedge_continues(layout) -%}
case position
    {%- for field in layout.fields if field.columns %}
    {%- set values, differences = [], [] %}
    {%- for name in field.columns %}
    {%- set first = 'first_part.' ~ afterimage._quote(name) %}
    {%- do values.append(
        afterimage._openedge_begun(first) ~ " <> ''" if layout.types[name] == 'string' else first ~ ' is not null'
    ) %}
    {%- do differences.append('(' ~ afterimage._openedge_differs(layout, name) ~ ')') %}
    {%- endfor %}
    when {{ field.number }} then if({{ values | join(' or ') }}, not ({{ differences | join(' or ') }}), null)
    {%- endfor %}
end
{%- endmacro -%}


{#- Whether a column of the first part has a value with which that of the row does not begin. -#}
{%- macro _openedge_differs(layout, name) -%}
    {%- set own, first = 'image.' ~ afterimage._quote(name), 'first_part.' ~ afterimage._quote(name) -%}
    {%- set differs = 'not startswith(coalesce(' ~ own ~ ", ''), " ~ afterimage._openedge_begun(first) ~ ')'
        if layout.types[name] == 'string'
        else 'not coalesce(startswith(' ~ own ~ ', ' ~ first ~ '), false)' if layout.types[name] == 'binary'
        else 'not ' ~ own ~ ' <=> ' ~ first -%}
    {{ return(first ~ ' is not null and ' ~ differs) }}
{%- endmacro -%}


{#- A text of a first part without what fills it up: blanks, and the elements of an array that it has not. -#}
{%- macro _openedge_begun(text) -%}
    {{ return("trim(trailing ' ;' from " ~ text ~ ')') }}
{%- endmacro -%}


{#- The length of the text that the record broke in. A first part is shorter than the whole record, if that has its
    position, and with any other part it gives the same. -#}
{%- macro _openedge_broken_length(layout) -%}
    {%- set lengths = [] -%}
    {%- for field in layout.fields
        if not field.is_array and field.columns and layout.types[field.columns[0]] in ['string', 'binary'] -%}
        {%- do lengths.append(
            'when ' ~ field.number ~ ' then nullif(length(image.' ~ afterimage._quote(field.columns[0]) ~ '), 0)'
        ) -%}
    {%- endfor -%}
    {{ return('case break_position ' ~ lengths | join(' ') ~ ' end' if lengths else 'cast(null as int)') }}
{%- endmacro -%}
