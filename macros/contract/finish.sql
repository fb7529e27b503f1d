{#- The end of every source macro. It turns the CTE `described`, a dialect's rows, one per change, into the change
    contract. A row has

    - `identity` and `place`: the beginning of change_id, and the change_seq ('' for a row without a place),
    - `kind`: load, reload (a load with a place: it counts as a change at its own time), insert, update, delete,
      truncate or unknown; and `own_key`, equal for all rows of a key,
    - `image`: the row after the change, or for a delete the deleted row; `before_image`: the row before an update,
    - `changed_columns`, `absent_columns`, `changed_at`, `transaction_id`, `reject_reason`, `warnings`, `source_rows`,
      `changed_by`, except those that the source `lacks`; and `further_columns`.

    `types` are those of the columns, by name. `ties` says what to do if rows share an identity or a place, see
    _tie_rules; `known` what is known of the rows that the table has, see _known_rules. `old_key` is the condition that an
    update gives the old key; without it, key changes cause no warning. -#}
{%- macro _finish(
    intake, columns, types, unique_key, lacks=[], ties={}, known={}, old_key=none, source_rows='cast(source_rows as int)',
    further_columns=[]
) -%}
{%- set ties = afterimage._tie_rules(**ties) -%}
{%- set known = afterimage._known_rules(**dict({'within': intake.known_within}, **known)) -%}
{%- set value = {} -%}
{%- for name, type in {
    'changed_columns': 'array<string>', 'absent_columns': 'array<string>', 'transaction_id': 'string', 'changed_by': 'string'
}.items() -%}
    {%- do value.update({name: 'cast(null as ' ~ type ~ ') as ' ~ name if name in lacks else name}) -%}
{%- endfor -%}
{%- set key_warning = afterimage._key_change_warning(columns, unique_key, old_key, lacks) -%}
{%- set is_tied = "(turn > 1 and kind not in ('load', 'reload') and reject_reason is null)" -%}
{%- if ties.order %}
{%- set turns -%}
partition by {{ (ties.within or ['place']) | join(', ') }}, reject_reason is null, own_key
order by
    {{ ties.comes_last ~ ' asc,' if ties.comes_last }}
    array_position(array('load', 'reload', 'insert', 'update', 'delete', 'truncate'), kind) asc,
    {{ ties.order }}
{%- endset %}
numbered_changes as (

    select
        *,
        {%- if ties.identity_order %}
        row_number() over (
            partition by {{ (ties.within or []) | join(', ') ~ (', ' if ties.within) }}identity
            order by {{ ties.identity_order }}
        ) as number_of_identity,
        {%- endif %}
        {%- if ties.delete_first %}
        -- The sum is 101 for one insert and one delete.
        if(
            sum(decode(kind, 'insert', 1, 'delete', 100, 10000)) over (
                {{ turns | indent(16) }}
                rows between unbounded preceding and unbounded following
            ) = 101,
            3 - row_number() over ({{ turns | indent(16) }}),
            row_number() over ({{ turns | indent(16) }})
        ) as turn,
        {%- else %}
        row_number() over (
            {{ turns | indent(12) }}
        ) as turn,
        {%- endif %}
        {{ key_warning | indent(8) }} as key_warning

    from described
    {%- if ties.alone %}
    where not {{ ties.alone }}
    union all
    select
        *,
        1 as number_of_identity,
        1 as turn,
        {{ key_warning | indent(8) }} as key_warning

    from described
    where {{ ties.alone }}
    {%- endif %}

),

{% endif -%}
changes as (

    select
        {%- if ties.identity_order %}
        concat(identity, if(number_of_identity > 1, concat('-', number_of_identity), '')) as change_id,
        {%- else %}
        identity as change_id,
        {%- endif %}
        {%- if ties.order %}
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
        {%- if ties.order %}
        if(
            turn > 1 and kind in ('load', 'reload') and reject_reason is null,
            'superseded: a later load of this key came',
            reject_reason
        ) as reject_reason,
        if(
            {{ is_tied }} or key_warning is not null,
            concat(coalesce(warnings, cast(array() as array<string>)), {{ afterimage._texts_where([
                [is_tied, "'another change of this key has the same change_seq'"], ['key_warning is not null', 'key_warning']
            ]) }}),
            warnings
        ) as warnings,
        {%- else %}
        reject_reason,
        warnings,
        {%- endif %}
        {{ source_rows }} as source_rows,
        {{ value.changed_by }}
        {%- for column in further_columns + known.carried %},
        {{ column }}
        {%- endfor %}

    from {{ 'numbered_changes' if ties.order else 'described' }}

)
{%- set staged = afterimage._staged(intake, known, columns, types, unique_key, further_columns) -%}
{%- do afterimage._note_end(staged, columns, types) %}
{{ staged }}
{%- endmacro -%}


{#- Rows that share an identity or a place:
    - `identity_order`: rows may share an identity; a number in change_id, in this order, keeps them apart,
    - `order`: changes of a key may share a place; suffixes put them in a declared order: by kind, delete last (but before
      those that meet the condition `comes_last`), then in this order. Of several loads of a key the first in it wins,
    - `delete_first`: where one insert and one delete of a key are alone at a place, the delete was first,
    - `within`: columns that such rows share as well. Rows that meet the condition `alone` share nothing. -#}
{%- macro _tie_rules(
    identity_order=none, order=none, within=none, alone=none, comes_last=none, delete_first=false
) -%}
    {{ return({
        'identity_order': identity_order, 'order': order, 'within': within, 'alone': alone, 'comes_last': comes_last,
        'delete_first': delete_first,
    }) }}
{%- endmacro -%}


{#- The suffix that orders further changes at a place: `.002`, `.003`, … From the 1000th on it is longer, but still
    sorts after the shorter ones and before what a dialect appends to a place (`.c…`). -#}
{%- macro _tie_suffix(turn) -%}
    {%- set is_short = turn ~ ' < 1000' -%}
    {{ return('concat(if(' ~ is_short ~ ", '.', '.999.'), lpad(" ~ turn ~ ', if(' ~ is_short ~ ", 3, 9), '0'))") }}
{%- endmacro -%}


{#- Conditions on `known`, the rows that the model's table has:
    - `within`: it holds for every row that the run can meet; none if that may be any,
    - `unchanged_if`: it keeps the stored row of a change unchanged,
    - `kept`: column -> an expression over `changes` and `known`, if a change keeps some of what the stored row says,
    - `carried`: columns of `described` that these conditions ask for, and that are not written,
    - `has_names_of_content`: whether a row may be named by all that it holds (`rejected-`, `unordered-`), see _renamed.
    `replaced` is a query for the change_ids of rejected rows that the run reads as other changes; a change_stream deletes
    them. -#}
{%- macro _known_rules(
    within, unchanged_if=none, replaced=none, kept={}, carried=[], has_names_of_content=true
) -%}
    {{ return({
        'within': within, 'unchanged_if': unchanged_if, 'replaced': replaced, 'kept': kept, 'carried': carried,
        'has_names_of_content': has_names_of_content,
    }) }}
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
