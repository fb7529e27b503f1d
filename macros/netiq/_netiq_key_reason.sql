{#- Why a table_key does not give a key of this table, or NULL. -#}
{%- macro _netiq_key_reason(layout) -%}
{%- set misfit = 'table_key has not the columns of the key (' ~ layout.unique_key | join(', ') ~ '): ' -%}
case
    when table_key is null then 'malformed table_key: NULL'
    when parsed.error is not null then concat('malformed table_key: ', parsed.error)
    when
        size(parsed.parts) <> {{ layout.key_columns | length }}
        or {{ afterimage._each(layout.unique_key, 'key_text.{column} is null') | join(' or ') }}
        then concat({{ afterimage._literal(misfit) }}, table_key)
    {%- for key in layout.key_columns %}
    {%- set text = 'key_text.' ~ afterimage._quote(key.name) %}
    when {{ afterimage._netiq_cast(text, key.type) }} is null
        then concat(
            {{ afterimage._literal('table_key does not cast: ' ~ key.name ~ ' is no ' ~ key.type ~ ': "') }},
            {{ text }},
            '"'
        )
    {%- endfor %}
end
{%- endmacro -%}
