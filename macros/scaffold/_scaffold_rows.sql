{#- The rows of a landed table as a test reads them. -#}
{%- macro _scaffold_rows(landed, condition=none) -%}
    {{ return(
        'select 1 as landed from {' ~ '{ ' ~ landed.reference ~ ' }' ~ '}'
        ~ (' where ' ~ condition if condition else '')
    ) }}
{%- endmacro -%}
