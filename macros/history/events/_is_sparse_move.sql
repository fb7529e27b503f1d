{#- The condition that a change gave a row another key and did not capture all its columns. (Its before-image may; to
    look for that in each column costs more than it spares.) -#}
{%- macro _is_sparse_move(unique_key) -%}
    {{ return('(size(absent_columns) > 0 and ' ~ afterimage._changes_the_key(unique_key) ~ ')') }}
{%- endmacro -%}
