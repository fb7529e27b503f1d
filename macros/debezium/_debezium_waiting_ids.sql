{#- A query for the change_ids that messages had while they waited for their schemas. -#}
{%- macro _debezium_waiting_ids(side, value) -%}
select concat('rejected-', md5(hex({{ afterimage._quote(value) }}))) from {{ side.rows }} where afterimage_unread is null
{%- endmacro -%}
