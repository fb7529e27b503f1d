{#- The condition that a change ends a row at its key; the name says that the transaction is known. -#}
{%- macro _ends_row_in_transaction(unique_key) -%}
    {{ return(
        "(transaction_id is not null and (operation = 'delete' or (" ~ afterimage._changes_key(unique_key) ~ ')))'
    ) }}
{%- endmacro -%}
