{#- The warning on an update that changed the key without all columns in its images. -#}
{%- macro _moved_incomplete() -%}
    {{ return(
        "the key changed and not all columns were captured: they keep the old key's values, where these are known"
    ) }}
{%- endmacro -%}
