{#- Whether a row gives its place in the log. -#}
{%- macro _db2_has_place(layout) -%}
    {{ return(
        '(' ~ afterimage._db2_is_place(layout.commitseq) ~ ' and ' ~ afterimage._db2_is_place(layout.intentseq) ~ ')'
    ) }}
{%- endmacro -%}
