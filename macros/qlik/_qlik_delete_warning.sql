{#- The warning for a delete whose mask flags other columns than the key's. Qlik, "Change Tables": a delete flags only
    the columns of the primary key or unique index. A mask without bits says nothing. `flagged` are the columns of the
    mask, in the order of the table. -#}
{%- macro _qlik_delete_warning(flagged, unique_key, mask) -%}
if(
    kind = 'delete' and size({{ flagged }}) > 0 and {{ flagged }} <> {{ afterimage._string_array(unique_key) }},
    concat(
        '{{ mask }} of a delete flags ', array_join({{ flagged }}, ', '), ', and unique_key is ',
        {{ afterimage._literal(unique_key | join(', ')) }}
    ),
    null
)
{%- endmacro -%}
