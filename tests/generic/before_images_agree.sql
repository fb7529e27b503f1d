{#- Each before-image equals the state that the change before it left. Where one does not, the source or the tool lost a
    change: the row names the key, the sequence and the columns. The first change of a key has nothing to agree with,
    nor has the first value of a column that the earlier changes of the key name in `absent_columns`. Before an update
    PostgreSQL logs the key alone by default: that says nothing until a before-image of the stream holds more.
    `hint` says where no before-image of the stream has a value for a column: the source does not capture it then. -#}
{% test before_images_agree(model, unique_key, columns=none) %}
    {%- do afterimage._check_names('before_images_agree', 'unique_key', unique_key, required=true) -%}
    {%- if afterimage._needs_placeholder([model]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {#- With a `where` dbt gives a query that has a name already. -#}
    {%- set stream = '(select * from ' ~ model ~ ')' if model is string else model -%}
    {%- set typed_columns = afterimage._stream_columns('before_images_agree', stream) -%}
    {%- set names = typed_columns | map(attribute='name') | list %}
    {%- do afterimage._check_known('before_images_agree', 'unique_key', unique_key, names) -%}
    {%- do afterimage._check_names('before_images_agree', 'columns', columns) -%}
    {%- do afterimage._check_known('before_images_agree', 'columns', columns, names) -%}
    {%- set chosen = (columns or names) | map('lower') | list -%}
    {%- set keys = afterimage._key_names(unique_key) %}
    {%- set others = [] -%}
    {%- for name in names if name | lower not in unique_key | map('lower') | list -%}
        {%- do others.append(name) -%}
    {%- endfor %}
    {%- set facts = afterimage._key_change_facts(model, unique_key) %}
    {%- set may_lack = facts is none or facts.sparse_columns | length > 0 %}

with

{{ afterimage._key_events(
    stream, unique_key, typed_columns, "timestamp '1900-01-01 00:00:00'",
    facts=facts
) }},

transitions as (

    select
        *,
        {{ afterimage._previous_state(keys) }} as previous_state,
        {%- if may_lack %}
        collect_set(if(is_row, coalesce(unknown_columns, array()), null)) over (
            {{ afterimage._event_window(keys) }} rows between unbounded preceding and 1 preceding
        ) as unknown_before,
        {%- endif %}
        row_number() over ({{ afterimage._event_window(keys) }}) as place

    from states

),

compared as (

    select
        {%- for key in unique_key %}
        {{ keys[loop.index0] }} as {{ afterimage._finding_name(key) }},
        {%- endfor %}
        change_seq,
        operation,
        if(
            not was_alive,
            array('there was no row'),
            array_compact(array(
                {%- for column in typed_columns if column.name | lower in chosen %}
                {%- set name = afterimage._quote(column.name) %}
                if(
                    -- NULL is no claim in the image of a delete or a key change, which may hold the key alone, nor
                    -- for a column that the source did not capture.
                    (
                        before_image.{{ name }} is not null
                        or (is_row and not coalesce(
                            array_contains(unknown_columns, {{ afterimage._literal(column.name) }}), false
                        ))
                    )
                    and not (
                        {{ afterimage._comparable('before_image.' ~ name, column.type) }}
                        <=> {{ afterimage._comparable('previous_state.' ~ name, column.type) }}
                    )
                    {%- if may_lack %}
                    and not (
                        previous_state.{{ name }} is null
                        and forall(
                            -- Beside names it may hold NULLs, and then it does not say of another name that it lacks it.
                            unknown_before,
                            names -> coalesce(array_contains(names, {{ afterimage._literal(column.name) }}), false)
                        )
                    )
                    {%- endif %},
                    {{ afterimage._literal(column.name) }},
                    null
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ))
        ) as disagreements,
        -- There was a row, and the before-image may hold no more than its key.
        was_alive and {{ afterimage._each(others, 'before_image.{column} is null') | join(' and ') or 'true' }}
            as is_key_alone

    from transitions
    where
        before_image is not null
        -- Most change tables begin in the middle of the life of their rows.
        and place > 1
        and coalesce(ended_by, '') <> 'truncate'
        -- An update that changed the key is held against the old key, at its departure.
        {%- for key in unique_key %}
        and before_image.{{ afterimage._quote(key) }} <=> {{ keys[loop.index0] }}
        {%- endfor %}

)

select
    {%- for key in unique_key %}
    compared.{{ afterimage._finding_name(key) }},
    {%- endfor %}
    compared.change_seq,
    compared.operation,
    compared.disagreements,
    if(
        size(array_intersect(compared.disagreements, lacking.columns)) > 0,
        concat(
            'no before-image has a value for ',
            array_join(array_intersect(compared.disagreements, lacking.columns), ', '),
            ': name the columns to compare in `columns`'
        ),
        null
    ) as hint

from compared
cross join (
    select
        array_compact(array(
            {%- for name in names %}
            if(count(`before`.{{ afterimage._quote(name) }}) = 0, {{ afterimage._literal(name) }}, null)
            {{- ',' if not loop.last }}
            {%- endfor %}
        )) as columns,
        min(if(
            {{ afterimage._each(others, '`before`.{column} is not null') | join(' or ') or 'false' }}, change_seq, null
        )) as more_than_keys_since

    from {{ stream }} as changes
    where operation = 'update' and reject_reason is null
) as lacking
where
    size(compared.disagreements) > 0
    -- An older change may be from before the source was set to log whole rows.
    and not (compared.is_key_alone and coalesce(compared.change_seq <= lacking.more_than_keys_since, true))

{% endtest %}
