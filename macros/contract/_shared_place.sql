{#- The place that changes share, without the suffix that `_finish` orders them by. It may be another when they come
    again: a change that gave its row another key, and now stands behind a newcomer, leaves its old key at another place.
    A suffix that is a change's own, such as a counter's, stays. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return('regexp_replace(' ~ change_seq ~ ", '[.](999[.][0-9]{9}|[0-9]{3})$', '')") }}
{%- endmacro -%}
