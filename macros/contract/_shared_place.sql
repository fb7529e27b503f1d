{#- The place that several changes share, without the suffix that `_finish` orders them by. The suffix may differ
    when the changes arrive again: if a change that gave its row another key is now ordered after a newcomer, it
    leaves its old key at another place. A suffix that belongs to the change itself, such as a counter, is kept. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return('regexp_replace(' ~ change_seq ~ ", '[.](999[.][0-9]{9}|[0-9]{3})$', '')") }}
{%- endmacro -%}
