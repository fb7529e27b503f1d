{#- The condition that a row has one of the keys of a query. A part of a key may be NULL. -#}
{%- macro _has_key_of(image, unique_key, of_keys) -%}
exists (
    select 1
    from ({{ of_keys }}) as wanted({{ afterimage._key_names(unique_key) | join(', ') }})
    where {{ afterimage._each(unique_key, 'wanted.{key} <=> ' ~ image ~ '.{column}') | join(' and ') }}
)
{%- endmacro -%}
