{#- What change tables and messages share: the newest valid change sequence, and two warnings. -#}


{#- The last change_seq that may count as the newest. -#}
{%- macro _qlik_latest_seq() -%}
    {{ return(modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '9' * 21) }}
{%- endmacro -%}


{#- The first change_seq of a second. It is in UTC, whatever the session's time zone. -#}
{%- macro _qlik_seq_at(time) -%}
concat(date_format(to_utc_timestamp({{ time }}, current_timezone()), 'yyyyMMddHHmmss'), repeat('0', 21))
{%- endmacro -%}


{#- The warning for a change without a timestamp of its own. -#}
{%- macro _qlik_time_warning(change_seq) -%}
if(
    {{ afterimage._sequence_time(change_seq) | indent(4) }} is null,
    'changed_at is unknown: neither timestamp nor change_seq has it',
    'changed_at is taken from change_seq'
)
{%- endmacro -%}


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
