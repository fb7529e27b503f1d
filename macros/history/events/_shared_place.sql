{#- The place of changes that share one: without the suffix that orders them (`.002`), which may be another when they
    come again. A suffix that is a change's own, such as a counter's, stays. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return("regexp_replace(" ~ change_seq ~ ", '[.][0-9]{3}$', '')") }}
{%- endmacro -%}
