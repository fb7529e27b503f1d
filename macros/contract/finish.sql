{#- The end of every source macro. It turns the CTE `described`, a dialect's rows, one per change, into the change
    contract. A row has

    - `identity` and `place`: the beginning of change_id, and the change_seq ('' for a row without a place),
    - `kind`: load, reload (a load with a place: it counts as a change at its own time), insert, update, delete,
      truncate or unknown; and `own_key`, equal for all rows of a key,
    - `image`: the row after the change, or for a delete the deleted row; `before_image`: the row before an update,
    - `changed_columns`, `absent_columns`, `changed_at`, `transaction_id`, `reject_reason`, `warnings`, `source_rows`,
      `changed_by`, except those that the source `lacks`; and `further_columns`.

    With `identity_order`, rows may share an identity; a number in change_id keeps them apart. With `tie_order`,
    changes of a key may share a place; suffixes put them in a declared order: by kind, delete last (but before those
    that meet the condition `comes_last`), then by `tie_order`. Of several loads of a key the first in that order wins.
    Such rows also share `within`; rows that meet the condition `alone` share nothing. `old_key` is the condition that
    an update gives the old key; without it, key changes cause no warning. `unchanged_if` and `replaced`: see _staged. -#}
{%- macro _finish(
    intake, columns, unique_key, lacks=[], identity_order=none, tie_order=none, within=none, alone=none,
    old_key=none, source_rows='cast(source_rows as int)', further_columns=[], unchanged_if=none, replaced=none,
    comes_last=none
) -%}
{%- set value = {} -%}
{%- for name, type in {
    'changed_columns': 'array<string>', 'absent_columns': 'array<string>', 'transaction_id': 'string', 'changed_by': 'string'
}.items() -%}
    {%- do value.update({name: 'cast(null as ' ~ type ~ ') as ' ~ name if name in lacks else name}) -%}
{%- endfor -%}
{%- set key_warning = afterimage._key_change_warning(columns, unique_key, old_key, lacks) -%}
{{ afterimage._key_marker(intake, unique_key) }}
{%- set is_tied = "(turn > 1 and kind not in ('load', 'reload') and reject_reason is null)" -%}
{%- if tie_order %}
numbered_changes as (

    select
        *,
        {%- if identity_order %}
        row_number() over (
            partition by {{ (within or []) | join(', ') ~ (', ' if within) }}identity
            order by {{ identity_order }}
        ) as number_of_identity,
        {%- endif %}
        row_number() over (
            partition by {{ (within or ['place']) | join(', ') }}, reject_reason is null, own_key
            order by
                {{ comes_last ~ ' asc,' if comes_last }}
                array_position(array('load', 'reload', 'insert', 'update', 'delete', 'truncate'), kind) asc,
                {{ tie_order }}
        ) as turn,
        {{ key_warning | indent(8) }} as key_warning

    from described
    {%- if alone %}
    where not {{ alone }}
    union all
    select
        *,
        1 as number_of_identity,
        1 as turn,
        {{ key_warning | indent(8) }} as key_warning

    from described
    where {{ alone }}
    {%- endif %}

),

{% endif -%}
changes as (

    select
        {%- if identity_order %}
        concat(identity, if(number_of_identity > 1, concat('-', number_of_identity), '')) as change_id,
        {%- else %}
        identity as change_id,
        {%- endif %}
        {%- if tie_order %}
        concat(place, if({{ is_tied }}, {{ afterimage._tie_suffix('turn') }}, '')) as change_seq,
        {%- else %}
        place as change_seq,
        {%- endif %}
        case kind when 'reload' then 'update' when 'unknown' then null else kind end as operation,
        case kind
            {%- if 'before_image' not in lacks %}
            when 'update' then before_image
            {%- endif %}
            when 'delete' then image
        end as `before`,
        if(kind in ('load', 'reload', 'insert', 'update', 'unknown'), image, null) as `after`,
        {{ value.changed_columns }},
        {{ value.absent_columns }},
        changed_at,
        {{ value.transaction_id }},
        {%- if tie_order %}
        if(
            turn > 1 and kind in ('load', 'reload') and reject_reason is null,
            'superseded: a later load of this key came',
            reject_reason
        ) as reject_reason,
        -- Few changes have warnings, and functions with lambdas are slow.
        if(
            {{ is_tied }} or key_warning is not null,
            array_compact(concat(
                coalesce(warnings, cast(array() as array<string>)),
                array(if({{ is_tied }}, 'another change of this key has the same change_seq', null), key_warning)
            )),
            warnings
        ) as warnings,
        {%- else %}
        reject_reason,
        warnings,
        {%- endif %}
        {{ source_rows }} as source_rows,
        {{ value.changed_by }}
        {%- for column in further_columns %},
        {{ column }}
        {%- endfor %}

    from {{ 'numbered_changes' if tie_order else 'described' }}

)

{{ afterimage._staged(intake, further_columns, unchanged_if, replaced) }}
{%- endmacro -%}


{#- The warning for an update that changed the key while the old key or some of the row's columns are unknown. -#}
{%- macro _key_change_warning(columns, unique_key, old_key, lacks) -%}
{%- if not old_key -%}
cast(null as string)
{%- else -%}
case
    when not kind <=> 'update' or image is null then null
    {%- if 'changed_columns' not in lacks %}
    when not ({{ old_key }})
        then if(
            arrays_overlap(changed_columns, {{ afterimage._string_array(unique_key) }}),
            'the key changed, but without a before-image the old key is unknown',
            null
        )
    {%- endif %}
    {%- if 'absent_columns' not in lacks %}
    when
        size(absent_columns) > 0
        and before_image is not null
        and not ({{ afterimage._same_columns('image', 'before_image', unique_key) }})
        and ({{ afterimage._each(
            columns | reject('in', unique_key), '(array_contains(absent_columns, {name}) and before_image.{column} is null)'
        ) | join(' or ') or 'false' }})
        then {{ afterimage._literal(
            "the key changed and not all columns were captured: they keep the old key's values, where these are known"
        ) }}
    {%- endif %}
end
{%- endif -%}
{%- endmacro -%}
