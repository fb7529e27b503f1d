{#- The warnings of a change, apart from those that all sources share. -#}
{%- macro _openedge_warnings(layout) -%}
nullif(array_compact(array(
    if(changed_at is null, '_Time-Stamp is missing or cannot be read', null),
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
