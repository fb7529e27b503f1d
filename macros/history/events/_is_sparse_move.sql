{#- The condition that a change gave a row another key without capturing all its columns. (Its before-image may have
    them; checking that in each column costs more than it saves.) -#}
{%- macro _is_sparse_move(unique_key) -%}
    {{ return('(size(absent_columns) > 0 and ' ~ afterimage._changes_key(unique_key) ~ ')') }}
{%- endmacro -%}
