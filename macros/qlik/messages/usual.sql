{#- Usual messages: changes and loads in JSON without spaces, with just the declared columns in their order. One parse
    reads them straight into types; then what it read is written again, and a message is usual if its text begins with
    that: then no value is lost. All others are read as maps of texts (opened.sql, images.sql), which say the same
    of usual ones. The longer statement takes Spark a second or more to plan, so few messages are read without it
    (_are_many). -#}


{#- What usual messages look like: whether they have an envelope, `is_wrapped`, and how they write each of the
    `columns`, as _qlik_usual_column says. A source writes a number as a number, or in quotes; a few of the landed
    messages show which. None if messages are few or in Avro, or none of these looks usual. -#}
{%- macro _qlik_usual_form(relation, landing, intake, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set rows = intake.sides[0].landed if intake.kind == 'new' else intake.sides[0].rows -%}
    {%- if landing.is_binary or modules.re.search('[\'"<\\\\]', names | join) or '__dbt__cte__' in rows
        or not afterimage._are_many(relation, intake) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select {{ landing.value }}
        from (select * from {{ rows }} as landed limit 10000) as landed
        where
            (
                startswith({{ landing.value }}, '{"data":')
                or startswith({{ landing.value }}, '{"magic":"atMSG","type":"DT",')
            )
            and contains({{ landing.value }}, {{ afterimage._literal('"data":{"' ~ names[0] ~ '":') }})
            -- What is nested too deeply would end `fromjson`, and so the run.
            and length({{ landing.value }}) - length(translate({{ landing.value }}, '[{', '')) < 100
        limit 20
    {%- endset -%}
    {%- set form = {'is_wrapped': none, 'columns': []} -%}
    {%- set values = {} -%}
    {%- for (text,) in run_query(query).rows -%}
        {%- set read = fromjson(text, {}) -%}
        {%- set body = read.get('message', read) -%}
        {%- if body is mapping and body.get('data') is mapping and body.data | list == names -%}
            {%- do form.update({'is_wrapped': 'message' in read}) -%}
            {%- for name, value in body.data.items() if values.get(name) is none -%}
                {%- do values.update({name: value}) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for column in columns -%}
        {%- do form.columns.append(dict(column, **afterimage._qlik_usual_column(column, values.get(column.name)))) -%}
    {%- endfor -%}
    {{ return(form if form.is_wrapped is not none else none) }}
{%- endmacro -%}


{#- How a usual message writes a column of which one has such a value: its type in JSON, and as SQL over `<field>` its
    `text` in JSON, its `value` in the image, and with that as `<value>` whether it is a `misfit` (none if none is). -#}
{%- macro _qlik_usual_column(column, value) -%}
    {%- set has_type_in_json = column.type in ['tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'boolean'] -%}
    {%- if has_type_in_json and (value is none or value is number) -%}
        {{ return({'json': column.type, 'text': 'cast(<field> as string)', 'value': '<field>', 'misfit': none}) }}
    {%- endif -%}
    {%- set usual = {
        'json': 'string',
        'text': '<field>' if value is number else "concat('\"', <field>, '\"')",
        'value': afterimage._cast_text('<field>', column.type),
        'misfit': afterimage._misfit('<field>', '<value>', column.type),
    } -%}
    {%- if value is number and column.type == 'string' -%}
        {#- An array or an object is no usual value, though Spark reads its text. -#}
        {%- do usual.update({'misfit': "<field> rlike '^[{\\\\[]'"}) -%}
    {%- endif -%}
    {{ return(usual) }}
{%- endmacro -%}


{#- The steps that read the usual ones among messages in `value`, as names and SQL. The last is `usual`: the `body` as
    opened.sql has it, but for the rows, and these as images; NULL of any other message. `fields` are those of a body. -#}
{%- macro _qlik_usual_steps(form, keys, fields) -%}
    {%- set types, texts, values, read_body = [], [], [], [] -%}
    {%- set doubts = [
        'm_read.damage is not null',
        "m_read.magic <> 'atMSG' or m_read.type <> 'DT'" if form.is_wrapped
            else 'coalesce(m_read.magic, m_read.type, m_read.messageSchemaId, m_read.message) is not null',
        "coalesce(m_body.headers.operation, '') not in ('REFRESH', 'INSERT', 'UPDATE', 'DELETE')",
        "if(m_body.headers.operation = 'DELETE', (m_data is null) = (m_before is null), m_data is null)",
    ] -%}
    {#- A number in the place of a text, if it has a fraction or no end, would be another text. -#}
    {%- do doubts.append("not m_body.headers.`timestamp` rlike '^[0-9]{4}-'") -%}
    {%- do doubts.append(
        "concat_ws(' ', m_read.messageSchemaId, m_body.`schema`, m_body.`table`, m_body.schemaId,"
        ~ ' m_body.lineage.`schema`, m_body.lineage.`table`, m_body.headers.`schema`, m_body.headers.`table`,'
        ~ ' m_body.headers.changeSequence, m_body.headers.transactionId, m_body.headers.changeMask,'
        ~ " m_body.headers.columnMask, m_body.headers.externalSchemaId) rlike '[.\"{\\\\[]'"
    ) -%}
    {%- for column in form.columns -%}
        {%- set name, field = afterimage._literal(column.name), '<row>.' ~ afterimage._quote(column.name) -%}
        {%- do types.append(afterimage._quote(column.name) ~ ': ' ~ column.json) -%}
        {%- do texts.append(
            afterimage._literal((',' if not loop.first else '') ~ '"' ~ column.name ~ '":') ~ ', coalesce('
            ~ column.text | replace('<field>', field) ~ ", 'null')"
        ) -%}
        {%- do values.append(name ~ ', ' ~ column.value | replace('<field>', field)) -%}
        {%- if column.misfit is not none -%}
            {%- set misfit = field ~ ' is not null and ' ~ column.misfit | replace('<field>', field) -%}
            {%- for row, image in [('m_body.data', 'm_data'), ('m_body.beforeData', 'm_before')] -%}
                {%- set value = image ~ '.' ~ afterimage._quote(column.name) -%}
                {%- do doubts.append(misfit | replace('<row>', row) | replace('<value>', value)) -%}
            {%- endfor -%}
        {%- endif -%}
        {%- if column.json == 'string' and column.type != 'string' -%}
            {#- Of LOBs the texts are compared. -#}
            {%- do doubts.append(
                field | replace('<row>', 'm_data') ~ ' <=> ' ~ field | replace('<row>', 'm_before') ~ ' and not '
                ~ field | replace('<row>', 'm_body.data') ~ ' <=> ' ~ field | replace('<row>', 'm_body.beforeData')
            ) -%}
        {%- endif -%}
        {%- if column.name in keys -%}
            {%- do doubts.append('m_before is not null and m_before.' ~ afterimage._quote(column.name) ~ ' is null') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set row = 'struct<' ~ types | join(', ') ~ '>' -%}
    {#- Numbers are read as numbers: Spark starts a writer of JSON for each that it reads as a text. -#}
    {%- set usual_fields = dict(
        fields, data=row, beforeData=row, headers=fields.headers
            | replace('transactionEventCounter: string', 'transactionEventCounter: bigint')
            | replace('transactionLastEvent: string', 'transactionLastEvent: boolean')
    ) -%}
    {%- set body = [] -%}
    {%- for name, type in usual_fields.items() -%}
        {%- do body.append(afterimage._quote(name) ~ ': ' ~ type) -%}
        {%- set value = 'null' if name in ['data', 'beforeData'] else 'm_body.' ~ afterimage._quote(name) -%}
        {%- do read_body.append(afterimage._literal(name) ~ ', cast(' ~ value ~ ' as ' ~ fields[name] ~ ')') -%}
    {%- endfor -%}
    {%- set body = body | join(', ') -%}
    {%- set type_read = 'struct<magic: string, type: string, messageSchemaId: string, damage: string, '
        ~ ('message: struct<' ~ body ~ '>' if form.is_wrapped else 'message: string, ' ~ body) ~ '>' -%}
    {%- set text = "if(<row> is null, 'null', concat('{', " ~ texts | join(', ') ~ ", '}'))" -%}
    {%- set image = 'if(<row> is null, null, named_struct(' ~ values | join(', ') ~ '))' -%}
    {%- set first = '{"magic":"atMSG","type":"DT",' if form.is_wrapped else '{"data":' -%}
    {%- set envelope = "concat('" ~ first ~ "\"headers\":null,\"messageSchemaId\":', coalesce(concat('\"', "
        ~ "m_read.messageSchemaId, '\"'), 'null'), ',\"messageSchema\":null,\"message\":{\"data\":')" -%}
    {{ return([
        ['m_read', "if(startswith(value, '" ~ first ~ "'), from_json(value, " ~ afterimage._literal(type_read)
            ~ ", map('columnNameOfCorruptRecord', 'damage', 'allowNonNumericNumbers', 'false')), null)"],
        ['m_body', 'm_read.message' if form.is_wrapped else 'm_read'],
        ['m_data', image | replace('<row>', 'm_body.data')],
        ['m_before', image | replace('<row>', 'm_body.beforeData')],
        ['m_is_usual',
            'coalesce(startswith(value, concat(' ~ (envelope if form.is_wrapped else "'" ~ first ~ "'") ~ ', '
            ~ text | replace('<row>', 'm_body.data') ~ ", ',\"beforeData\":', " ~ text | replace('<row>', 'm_body.beforeData')
            ~ ", ',\"headers\":{')), false)"
            ~ ' and not coalesce(array_contains(array(' ~ doubts | join(', ') ~ '), true), false)'],
        ['usual', "if(m_is_usual, named_struct('magic', m_read.magic, 'type', m_read.type, 'schema_id', m_read.messageSchemaId, "
            ~ "'body', named_struct(" ~ read_body | join(', ') ~ "), 'data', m_data, 'before_data', m_before), null)"],
    ]) }}
{%- endmacro -%}
