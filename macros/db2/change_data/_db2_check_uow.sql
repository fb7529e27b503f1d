{#- IBMSNAP_UOW must be a table with the commit and its time. -#}
{%- macro _db2_check_uow(macro_name, uow) -%}
    {%- if uow is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = afterimage._relation_columns(uow) | map(attribute='name') | map('upper') | list -%}
    {%- for name in ['IBMSNAP_COMMITSEQ', 'IBMSNAP_LOGMARKER'] if name not in found -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `uow` must be a relation with the columns IBMSNAP_COMMITSEQ and IBMSNAP_LOGMARKER, such as"
            ~ " IBMSNAP_UOW. Got: " ~ uow ~ " with " ~ found
        ) -%}
    {%- endfor -%}
{%- endmacro -%}
