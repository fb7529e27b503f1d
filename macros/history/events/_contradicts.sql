{#- Whether the before-image has a value that differs from the row's known value. NULL proves nothing: a
    before-image may leave out columns that were not captured. Values are compared as texts by name, so that the SQL
    does not grow with the number of columns. -#}
{%- macro _contradicts(row) -%}
{%- set fields -%}
from_json({{ afterimage._exact_json('before_image') }}, 'map<string, string>')
{%- endset -%}
coalesce(
    exists(
        map_entries({{ fields }}),
        claim -> not coalesce(array_contains({{ row }}.unknown_columns, claim.key), false)
        and not coalesce({{ fields | replace('before_image', row ~ '.image') }}[claim.key] = claim.value, false)
    ),
    false
)
{%- endmacro -%}
