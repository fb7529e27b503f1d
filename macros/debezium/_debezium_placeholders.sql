{#- The forms of the placeholder, as SQL literals: a text, bytes, an array of texts, of bytes, of numbers (its bytes),
    of dates (Avro: so many days) or of UUIDs (made of its MD5 as Java does), an hstore, and an hstore as text. -#}
{%- macro _debezium_placeholders(placeholder) -%}
    {%- set text = afterimage._literal(placeholder) -%}
    {%- set md5 = local_md5(placeholder) -%}
    {%- set uuid = [
        md5[:8], md5[8:12], '3' ~ md5[13:16], '89ab'[md5[16] | int(base=16) % 4] ~ md5[17:20], md5[20:]
    ] | join('-') -%}
    {%- set bytes, days = placeholder.encode('utf-8') | list, [] -%}
    {%- for byte in bytes -%}
        {%- do days.append((modules.datetime.date(1970, 1, 1) + modules.datetime.timedelta(days=byte)).isoformat()) -%}
    {%- endfor -%}
    {{ return([
        text, 'base64(' ~ text ~ ')', 'lower(hex(' ~ text ~ '))',
        'to_json(array(' ~ text ~ '))', 'to_json(array(base64(' ~ text ~ ')))',
        "'" ~ bytes | tojson | replace(' ', '') ~ "'", "'" ~ days | tojson | replace(' ', '') ~ "'", "'[\"" ~ uuid ~ "\"]'",
        'to_json(map(' ~ text ~ ', ' ~ text ~ '))', "replace(to_json(map(" ~ text ~ ", " ~ text ~ ")), ':', ': ')",
    ] | join(', ')) }}
{%- endmacro -%}
