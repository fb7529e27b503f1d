{#- The condition that a change gave its row another key. -#}
{%- macro _changes_key(unique_key) -%}
    {{ return(
        "operation = 'update' and `before` is not null and not ("
        ~ afterimage._same_columns('`before`', '`after`', unique_key) ~ ')'
    ) }}
{%- endmacro -%}
