{#- One number for all values of a row. xxhash64 skips NULLs, so the hash also covers which values exist: (NULL, 1)
    and (1, NULL) differ. -#}
{%- macro _hash_of_values(expressions) -%}
xxhash64(
    {%- for expression in expressions %}
    {{ expression }},
    isnull({{ expression }}){{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
