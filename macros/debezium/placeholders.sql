{#- The forms of the placeholder, as SQL literals: a text, bytes, an array of texts, of bytes, of numbers (its bytes),
    of dates (Avro: so many days) or of UUIDs (made of its MD5 as Java does), an hstore, and an hstore as text. -#}
{%- macro _debezium_placeholder_forms(placeholder) -%}
    {%- set text = afterimage._literal(placeholder) -%}
    {%- set md5 = local_md5(placeholder) -%}
    {%- set uuid = [
        md5[:8], md5[8:12], '3' ~ md5[13:16], '89ab'[md5[16] | int(base=16) % 4] ~ md5[17:20], md5[20:]
    ] | join('-') -%}
    {%- set bytes, days = placeholder.encode('utf-8') | list, [] -%}
    {%- for byte in bytes -%}
        {%- do days.append((modules.datetime.date(1970, 1, 1) + modules.datetime.timedelta(days=byte)).isoformat()) -%}
    {%- endfor -%}
    {{ return({
        'texts': [text],
        'base64': ['base64(' ~ text ~ ')'],
        'hex': ['lower(hex(' ~ text ~ '))'],
        'lists': [
            'to_json(array(' ~ text ~ '))', 'to_json(array(base64(' ~ text ~ ')))',
            "'" ~ bytes | tojson | replace(' ', '') ~ "'", "'" ~ days | tojson | replace(' ', '') ~ "'", "'[\"" ~ uuid ~ "\"]'",
        ],
        'maps': [
            'to_json(map(' ~ text ~ ', ' ~ text ~ '))', "replace(to_json(map(" ~ text ~ ", " ~ text ~ ")), ':', ': ')",
        ],
    }) }}
{%- endmacro -%}


{#- All forms of the placeholder, as a list in SQL. -#}
{%- macro _debezium_placeholders(placeholder) -%}
    {{ return(afterimage._debezium_placeholder_forms(placeholder).values() | sum(start=[]) | join(', ')) }}
{%- endmacro -%}


{#- Whether `v`, the text of the column `k`, is a value and no placeholder; NULL if it is NULL. A long placeholder is no
    value in any form. A short one may be one of another type (`?` in Base64 is the decimal 0.63), so each type has its
    own forms. -#}
{%- macro _debezium_is_value(columns, placeholder) -%}
    {%- set in_any = 'v in (' ~ afterimage._debezium_placeholders(placeholder) ~ ')' -%}
    {%- if placeholder | length >= 12 -%}
        {{ return('not ' ~ in_any) }}
    {%- endif -%}
    {%- set forms = afterimage._debezium_placeholder_forms(placeholder) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- set of_type = {
            'string': forms.texts + forms.lists + forms.maps if not column.is_time else [],
            'binary': forms.get(column.get('encoding') or 'base64', []),
            'array<string>': forms.lists,
        }.get(column.type, []) -%}
        {%- do conditions.append('k = ' ~ afterimage._literal(column.name) ~ ' and v in (' ~ of_type | join(', ') ~ ')')
            if of_type -%}
    {%- endfor -%}
    {{ return('if(v is null, null, not (' ~ in_any ~ ' and (' ~ (conditions | join(' or ') or 'false') ~ ')))') }}
{%- endmacro -%}


{#- Whether a message may leave out what its change left alone: an update, or the insert of a key change. REPLICA
    IDENTITY FULL shows the row before, and then the connector knows all of the row. -#}
{%- macro _debezium_may_lack() -%}
    {{ return("(m.op = 'u' and not has_before or " ~ afterimage._debezium_came() ~ ')') }}
{%- endmacro -%}


{#- The columns that are NULL in a row, although PostgreSQL may only have left out their value: an array of texts. For
    some types the connector has no placeholder, and writes NULL. Which these are, the schema beside the payload says;
    without it each array may be one. -#}
{%- macro _debezium_null_placeholders(columns) -%}
    {%- set arrays = columns | selectattr('type', 'eq', 'array<string>') | map(attribute='name') | list -%}
    {%- set bytes = columns | selectattr('type', 'eq', 'binary') | map(attribute='name') | list -%}
    {%- if not arrays + bytes -%}
        {{ return('cast(array() as array<string>)') }}
    {%- endif -%}
    {%- set null = 'if(map_contains_key(row_values, {name}) and row_values[{name}] is null' -%}
    {%- set nulls = 'array_compact(array(' ~ (
        afterimage._each(arrays, null ~ ', {name}, null)')
        + afterimage._each(bytes, null ~ " and contains(value, 'io.debezium.data.Bits'), {name}, null)")
    ) | join(', ') ~ '))' -%}
    {%- set field = 'field: string, type: string, name: string, items: struct<type: string, name: string>' -%}
    {%- set fields = "from_json(get_json_object(value, '$.schema.fields'), 'array<struct<" ~ field
        ~ ', fields: array<struct<' ~ field ~ ">>>>')" -%}
    {%- set of_row = "coalesce(get(filter(s, f -> f.field = 'after'), 0).fields, transform(s, f -> struct("
        ~ 'f.field, f.type, f.name, f.items)))' -%}
    {#- Arrays of texts, numbers, bytes, JSON, UUIDs, and dates that are days have a placeholder. -#}
    {%- set has_none = "(f.name = 'io.debezium.data.Bits' or f.type = 'array' and not coalesce("
        ~ "if(f.items.name is null, f.items.type in ('string', 'int32', 'int64', 'bytes'), f.items.name in ("
        ~ "'io.debezium.time.Date', 'io.debezium.data.Uuid', 'io.debezium.data.Json')), false))" -%}
    {%- set by_schema = afterimage._let('s', fields, 'if(s is null, array_intersect(nulls, '
        ~ afterimage._string_array(arrays) ~ '), transform(filter(' ~ of_row
        ~ ', f -> array_contains(nulls, f.field) and ' ~ has_none ~ '), f -> f.field))') -%}
    {#- Other databases log the whole row, and so does PostgreSQL for REPLICA IDENTITY FULL. -#}
    {{ return(
        'if(is_postgresql and ' ~ afterimage._debezium_may_lack() ~ ', '
        ~ afterimage._let('nulls', nulls, 'if(size(nulls) = 0, nulls, ' ~ by_schema ~ ')')
        ~ ', cast(array() as array<string>))'
    ) }}
{%- endmacro -%}
