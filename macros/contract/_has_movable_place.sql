{#- Whether a change stands behind the greatest change_seq that was known before it (`<change_seq>.r<number>`), so that
    it moves where a greater one comes late. -#}
{%- macro _has_movable_place(change_seq) -%}
    {{ return(change_seq ~ " like '%.r%'") }}
{%- endmacro -%}
