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
