{%- macro _scaffold_no_key(landed, why, columns) -%}
    {%- do afterimage._scaffold_stop(
        "the key cannot be guessed (" ~ why ~ "). Give `unique_key`, some of the columns of " ~ landed.name ~ ": "
        ~ columns | map(attribute='name') | join(', ')
    ) -%}
{%- endmacro -%}
