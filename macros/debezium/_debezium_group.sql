{#- A text that is equal for messages that must be read together: those with one place in the log, which includes the
    copies of a change, or all loads of a key. `m` is the message as _debezium_message reads it. -#}
{%- macro _debezium_group(value, key, position, keys) -%}
case
    when m.op is null or m.op = 'm' then concat('no-row-', md5(coalesce({{ value }}, {{ key }}, '')))
    when m.kind = 'load' then concat('load-', md5({{ afterimage._texts_of_map('m.row', keys) }}))
    when m.log_place is not null then concat(m.log_place, if(m.kind = 'reload', '.i', ''))
    else concat('unplaced-', coalesce({{ position }}, md5({{ value }})))
end
{%- endmacro -%}
