{#- Whether a change was placed after the greatest change_seq known at its time (`<change_seq>.r<number>`). It moves
    when a greater change_seq arrives late. -#}
{%- macro _has_movable_place(change_seq) -%}
    {{ return(change_seq ~ " like '%.r%'") }}
{%- endmacro -%}
