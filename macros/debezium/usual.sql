{#- Usual messages: envelopes of a row, as JsonConverter writes them without a schema, with just the declared columns in
    their order. One parse reads them straight into types; then what it read is written again, and a message is usual if
    that is its text: then nothing is lost. All others are read as maps of texts (message.sql, images.sql), which say the
    same of usual ones. This saves a third of the time of many messages; the longer statement takes Spark a second or
    more to plan, so few messages are read without it (_are_many). -#}


{#- The steps that read the usual messages in `landed_value`, as _debezium_message_steps has them. The last is `usual`:
    `m` without rows, the `image` of the row that the message is of, the row `before` an update, and the texts of the
    `keys`; NULL of any other message. There are no steps if a column is always read as text. -#}
{%- macro _debezium_usual_steps(layout) -%}
    {%- set columns = [] -%}
    {%- for column in layout.columns -%}
        {%- set usual = afterimage._debezium_usual_column(column) -%}
        {%- do columns.append(dict(column, **usual)) if usual and not modules.re.search('[\'"<\\\\]', column.name) -%}
    {%- endfor -%}
    {#- Only such a placeholder is no number and no boolean in any of its forms. -#}
    {%- set has_clear_placeholder = modules.re.fullmatch('\\w*_\\w*', layout.placeholder, modules.re.ASCII) -%}
    {%- set has_usual_columns = columns | length == layout.columns | length and not layout.sparse -%}
    {%- if not (has_clear_placeholder and has_usual_columns) -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set fields, texts, values, key_texts, read_texts = [], [], [], [], [] -%}
    {%- set doubts = [
        'm_read.damage is not null or m_read.source is null',
        'm_read.payload is not null or m_read.schema is not null',
        "coalesce(m_read.op, '') not in ('c', 'r', 'u', 'd')",
        "(m_read.op = 'd') <> (m_read.after is null)",
        "m_read.before is not null and (m_read.source.lsn is not null or startswith(m_read.source.sequence, '['))",
        "lower(m_read.source.snapshot) = 'incremental'",
    ] -%}
    {#- Numbers are read as numbers: Spark starts a writer of JSON for each that it reads as a text. -#}
    {%- set sources = [] -%}
    {%- for name in afterimage._debezium_source_names() -%}
        {%- do sources.append("'" ~ name ~ "', cast(m_read.source.`" ~ name ~ '` as string)') -%}
    {%- endfor -%}
    {%- if layout.table is not none -%}
        {%- do doubts.append('not coalesce(' ~ afterimage._is_table(
            layout.table, 'coalesce(m_read.source.schema, m_read.source.db)', 'm_read.source.`table`'
        ) ~ ', false)') -%}
    {%- endif -%}
    {%- for column in columns -%}
        {%- set name, field = afterimage._literal(column.name), '<row>.' ~ afterimage._quote(column.name) -%}
        {%- set text = column.text | replace('<field>', field) -%}
        {%- do fields.append(afterimage._quote(column.name) ~ ': ' ~ column.json) -%}
        {%- do texts.append(
            afterimage._literal((',' if not loop.first else '') ~ '"' ~ column.name ~ '":') ~ ', coalesce('
            ~ ("concat('\"', " ~ text ~ ", '\"')" if column.json == 'string' else text) ~ ", 'null')"
        ) -%}
        {%- do values.append(name ~ ', ' ~ column.value | replace('<field>', field)) -%}
        {%- if column.name in layout.unique_key -%}
            {%- do key_texts.append(text | replace('<row>', 'm_row')) -%}
            {%- do doubts.append(field | replace('<row>', 'm_row') ~ ' is null') -%}
        {%- endif -%}
        {%- for row, image in [('m_read.after', 'm_after'), ('m_read.before', 'm_before')] -%}
            {%- do read_texts.append(field | replace('<row>', row)) if column.json == 'string' -%}
            {%- if column.fits -%}
                {%- do doubts.append(
                    field | replace('<row>', row) ~ ' is not null and not coalesce('
                    ~ column.fits | replace('<field>', field) | replace('<row>', row)
                    ~ ' and ' ~ field | replace('<row>', image) ~ ' is not null, false)'
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set row = 'struct<' ~ fields | join(', ') ~ '>' -%}
    {%- set envelope = 'struct<before: ' ~ row ~ ', after: ' ~ row ~ ', source: '
        ~ afterimage._debezium_source_type(has_numbers=true) ~ ', op: string, payload: string, schema: string, damage: string>' -%}
    {%- set text = "if(<row> is null, 'null', concat('{', " ~ texts | join(', ') ~ ", '}'))" -%}
    {%- set value = 'if(<row> is null, null, named_struct(' ~ values | join(', ') ~ '))' -%}
    {%- set null_map = 'cast(null as map<string, string>)' -%}
    {{ return([
        ['m_read',
            "if(startswith(landed_value, '{\"before\":'), from_json(landed_value, " ~ afterimage._literal(envelope) ~ ', '
            ~ "map('columnNameOfCorruptRecord', 'damage', 'allowNonNumericNumbers', 'false')), null)"],
        ['m_row', 'coalesce(m_read.after, m_read.before)'],
        ['m_after', value | replace('<row>', 'm_read.after')],
        ['m_before', value | replace('<row>', 'm_read.before')],
        ['m_op', 'm_read.op'],
        ['m_source', 'named_struct(' ~ sources | join(', ') ~ ')'],
        ['m_is_usual',
            "coalesce(startswith(landed_value, concat('{\"before\":', " ~ text | replace('<row>', 'm_read.before') ~ ", ',\"after\":', "
            ~ text | replace('<row>', 'm_read.after') ~ ", ',\"source\":')), false)"
            ~ ' and not coalesce(array_contains(array(' ~ doubts | join(', ') ~ '), true), false)'
            ~ ' and not coalesce(arrays_overlap(array(' ~ (read_texts or ["''"]) | join(', ') ~ '), array(' ~ layout.placeholders ~ ')), false)'],
        ['usual', "if(m_is_usual, named_struct('m', "
            ~ afterimage._debezium_message(null_map, 'true', null_map, null_map)
            ~ ", 'image', coalesce(m_after, m_before), 'before', if(m_read.op = 'u', m_before, null), 'keys', array("
            ~ key_texts | join(', ') ~ ')), null)'],
    ]) }}
{%- endmacro -%}


{#- How a usual value of a column is read and written, as SQL over `<field>`: its type in JSON, its `text`, its value in
    the image, and whether that `fits`. None if values of the type are always read as texts. -#}
{%- macro _debezium_usual_column(column) -%}
    {%- set usual = {'json': column.type, 'text': 'cast(<field> as string)', 'value': '<field>'} -%}
    {%- set bytes = "try_to_binary(<field>, 'base64')" -%}
    {#- Of more than 57 bytes Spark writes lines. -#}
    {%- set is_base64 = 'replace(base64(' ~ bytes ~ "), '\\r\\n', '') = <field>" -%}
    {%- if column.is_time -%}
        {{ return(dict(
            usual, json='bigint', value=afterimage._debezium_time_of_day('cast(<field> as string)', column.precision)
        )) }}
    {%- elif column.type == 'string' -%}
        {%- set value = afterimage._debezium_compact('<field>') if column.get('encoding') == 'json' else '<field>' -%}
        {{ return(dict(usual, text='<field>', value=value)) }}
    {%- elif column.type in ['tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'boolean'] -%}
        {{ return(usual) }}
    {%- elif afterimage._debezium_has_bytes(column) -%}
        {%- set number = 'conv(lpad(hex(' ~ bytes ~ '), 16, if(hex(' ~ bytes ~ ") >= '8', 'F', '0')), 16, -10)" -%}
        {%- set scale = column.type.split(',')[1].rstrip(')') -%}
        {{ return({
            'json': 'string', 'text': '<field>', 'fits': 'length(' ~ bytes ~ ") between 1 and 8 and <field> <> 'Infinity' and " ~ is_base64,
            'value': 'try_cast(concat(' ~ number ~ ", 'E-" ~ scale ~ "') as " ~ column.type ~ ')',
        }) }}
    {%- elif column.type == 'binary' and column.get('encoding') != 'hex' -%}
        {{ return({'json': 'string', 'text': '<field>', 'fits': is_base64, 'value': bytes}) }}
    {%- elif column.type == 'date' -%}
        {{ return(dict(
            usual, json='int', value='date_from_unix_date(<field>)', fits='<field> between -99999 and 99999'
        )) }}
    {%- elif column.type == 'timestamp' and column.precision is none -%}
        {#- Not PostgreSQL's infinity, which has more digits in its year. -#}
        {{ return({
            'json': 'string', 'text': '<field>', 'value': afterimage._cast_text('<field>', 'timestamp'),
            'fits': "substr(<field>, 5, 1) = '-'",
        }) }}
    {%- elif column.type in ['timestamp', 'timestamp_ntz'] and column.precision is not none and column.precision <= 6 -%}
        {%- set last, unit = ('9' * 13, 'millis') if column.precision <= 3 else ('9' * 16, 'micros') -%}
        {{ return(dict(
            usual, json='bigint', fits='<field> between 0 and ' ~ last,
            value='cast(timestamp_' ~ unit ~ '(if(<field> between 0 and ' ~ last ~ ', <field>, null)) as ' ~ column.type ~ ')',
        )) }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro -%}


{#- The fields of `source` that are read. -#}
{%- macro _debezium_source_names() -%}
    {{ return([
        'snapshot', 'ts_ms', 'ts_us', 'schema', 'db', 'table', 'txId', 'gtid', 'sequence', 'lsn', 'file', 'pos', 'row', 'server_id',
        'commit_lsn', 'change_lsn', 'event_serial_no', 'commit_scn', 'scn', 'rs_id', 'ssn',
        'lcr_position'
    ]) }}
{%- endmacro -%}


{%- macro _debezium_source_type(has_numbers=false) -%}
    {%- set fields = [] -%}
    {%- for name in afterimage._debezium_source_names() -%}
        {%- set is_number = has_numbers and name in ['ts_ms', 'ts_us', 'pos', 'row', 'server_id', 'lsn'] -%}
        {%- do fields.append('`' ~ name ~ '`: ' ~ ('bigint' if is_number else 'string')) -%}
    {%- endfor -%}
    {{ return('struct<' ~ fields | join(', ') ~ '>') }}
{%- endmacro -%}
