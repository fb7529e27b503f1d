{#- The order of changes that the columns of `order_by` give. `types` are by names in lower case, `times` holds a
    timestamp for each text column that is a time. A column called `…change_seq` of text or decimals is a sequence of 35
    digits. The result is SQL over a landed row, and what `_intake` needs:
    - `place`: the columns in one text that sorts as they do; NULL if one of them has no value,
    - `is_empty`: whether none has a value; `time`: the time in a sequence; `shown`: the values as people read them,
    - `bounds`, `column` and `latest`: as in a side of `_intake`. -#}
{%- macro _dms_order(names, types, times) -%}
    {%- set order = {'bounds': none, 'column': none, 'latest': none} -%}
    {%- set places, empty, sequence_times, values = [], ['true'], ['cast(null as timestamp)'], [] -%}
    {%- for name in names -%}
        {%- set column, type = afterimage._quote(name), types[name | lower] -%}
        {%- set is_sequence = (name | lower).endswith('change_seq')
            and type in ['string', 'decimal(35,0)', 'decimal(38,0)'] -%}
        {%- set text = column if type == 'string' else 'cast(' ~ column ~ ' as string)' -%}
        {%- set digits = text if type == 'string' else 'lpad(' ~ text ~ ", 35, '0')" -%}
        {%- set place = afterimage._sortable_text(times.get(name, column), 'timestamp' if name in times else type) -%}
        {%- if is_sequence -%}
            {%- set place = 'if(' ~ digits ~ " rlike '^(?!0*$)[0-9]{35}$', " ~ digits ~ ', null)' -%}
        {%- elif place is none -%}
            {%- do exceptions.raise_compiler_error(
                "dms_changes: `order_by` must list columns of text, bytes, whole numbers, decimals, dates or"
                ~ " timestamps. Got: " ~ name ~ ", a " ~ type
            ) -%}
        {%- endif -%}
        {%- do places.append('nullif(' ~ place ~ ", '')") -%}
        {%- do empty.append('coalesce(' ~ text ~ " rlike '^" ~ ('0*' if is_sequence else '\\\\s*') ~ "$', true)") -%}
        {%- do values.append('coalesce(' ~ afterimage._as_text(column, type) ~ ", 'NULL')") -%}
        {%- if is_sequence or (type == 'string' and name not in times) -%}
            {%- do sequence_times.append(
                'if(' ~ digits ~ " rlike '^[0-9]{35}$', " ~ afterimage._sequence_time(digits) ~ ', null)'
            ) -%}
        {%- endif -%}
        {%- if loop.first and is_sequence -%}
            {#- Spark skips files by a bare column alone. -#}
            {%- set bounds = column ~ (" between left('<first>', 35) and left('<last>', 35)" if type == 'string' else
                " between cast(left('<first>', 35) as decimal(38,0)) and cast(left('<last>', 35) as decimal(38,0))") -%}
            {%- do order.update({
                'bounds': bounds,
                'column': column if type == 'string' else none,
                'latest': modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '~',
            }) -%}
        {%- elif loop.first and (name in times or type in ['timestamp', 'timestamp_ntz', 'date']) -%}
            {%- do order.update({'latest': '%019d~' % ((run_started_at.timestamp() + 86400) * 1000000)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set place = 'concat(' ~ places | join(", '-', ") ~ ')' if places else 'cast(null as string)' -%}
    {%- do order.update({
        'place': place,
        'is_empty': '(' ~ empty | join(' and ') ~ ')',
        'time': 'coalesce(' ~ sequence_times | join(', ') ~ ')',
        'shown': 'concat_ws(' ~ (["', '"] + values) | join(', ') ~ ')',
        'bounds': order.bounds or place ~ " between '<first>' and '<last>'",
    }) -%}
    {{ return(order) }}
{%- endmacro -%}
