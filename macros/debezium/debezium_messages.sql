{#- Debezium messages on Kafka -> change contract. Arguments: debezium_messages.yml. -#}
{%- macro debezium_messages(
    relation,
    unique_key,
    columns,
    value='value',
    key=none,
    position=none,
    placeholder='__debezium_unavailable_value',
    table=none,
    headers=none
) -%}
    {%- set macro_name = 'debezium_messages' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'position', position) -%}
    {%- for argument, given in {
        'value': value, 'key': key or 'none', 'placeholder': placeholder, 'table': table or 'none',
        'headers': headers or 'none'
    }.items() -%}
        {%- do afterimage._check_text(macro_name, argument, given) -%}
    {%- endfor -%}
    {%- set columns = afterimage._debezium_columns(columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, names) -%}
    {%- set keys = afterimage._in_column_order(unique_key, names) -%}
    {%- if afterimage._cannot_read_columns([relation]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set landing = afterimage._debezium_landing(relation, value, key, position, headers) -%}
    {%- do afterimage._check_drift(macro_name, relation, columns) -%}
    {%- set group = afterimage._debezium_group(landing.value, landing.key, landing.position, keys) -%}
    {%- set side = {
        'relation': relation,
        'group': afterimage._debezium_of_message(landing.value, group),
        'time': afterimage._debezium_of_message(landing.value, afterimage._debezium_time()),
    } -%}
    {#- Copies of a change share its place in the log, but not an offset. -#}
    {%- if landing.position is none -%}
        {%- set place = afterimage._debezium_of_message(landing.value, afterimage._debezium_change_place()) -%}
        {%- do side.update({'place': place, 'has_place': '(' ~ place ~ " <> '')", 'reach': 12}) -%}
    {%- endif -%}
    {%- set intake = afterimage._intake(macro_name, [side]) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._no_new_changes()) }}
    {%- endif -%}
    {%- do afterimage._allow_many_steps() -%}
    {%- set layout = {'columns': columns, 'names': names, 'keys': keys, 'table': table, 'placeholder': placeholder} %}
{{ intake.marker }}
with

{{ afterimage._debezium_opened(intake.sides[0], landing, layout) }},

{{ afterimage._debezium_images(layout) }},

{{ afterimage._debezium_judged(landing, layout) }},

{{ afterimage._distinct_rows(
    'judged', by='change_group, identity, row_id', first='place, landed_position, changed_at'
) }},

{% if headers is not none -%}
{{ afterimage._paired_rows('distinct_rows', 'pair_group', 'is_moved', ['image', 'copies'], 'row_id') }},

{% endif -%}
described as (

    select
        change_group,
        identity,
        place,
        {{ "if(found is null, kind, 'update')" if headers is not none else 'kind' }} as kind,
        own_key,
        image,
        {{ 'coalesce(found.image, before_image)' if headers is not none else 'before_image' }} as before_image,
        row_id,
        landed_position,
        loaded_at,
        absent_columns,
        changed_at,
        transaction_id,
        reject_reason,
        warnings,
        cast(copies{{ ' + coalesce(found.copies, 0)' if headers is not none }} as int) as source_rows

    from {{ 'paired_rows' if headers is not none else 'distinct_rows' }}

),

{#- Of several loads of a key the last one wins. -#}
{{ afterimage._finish(
    'described', intake, names, keys,
    lacks=['changed_columns', 'changed_by'],
    within=['change_group'],
    identity_order='own_key asc, kind asc, row_id asc',
    tie_order='landed_position desc nulls last, loaded_at desc nulls last, row_id asc',
    old_key='before_image is not null'
) }}
{%- endmacro -%}
