{#- Whether the before-image has a value that a row is known not to have. NULL is no claim: a before-image may leave out
    what was not captured. As texts by name, so that the SQL does not grow with the columns. -#}
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
