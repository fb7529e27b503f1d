{#- The order of the changes, from the columns of `order_by`:
    - `place`: all of them in one text, which sorts like them; NULL if one has no value,
    - `is_empty`: the condition that none has a value, as in rows of a full load,
    - `time`: the time in a sequence of 35 digits; `is_sequence`: whether such a sequence comes first. -#}
{%- macro _dms_order(layout) -%}
    {%- set order = {'places': [], 'empty': ['true'], 'times': ['cast(null as timestamp)'], 'sequences': []} -%}
    {%- for name in layout.order_by -%}
        {%- set column, type = afterimage._quote(name), layout.types[name] -%}
        {%- set text = 'trim(cast(' ~ column ~ ' as string))' -%}
        {%- if (name | lower).endswith('change_seq') and type in ['string', 'decimal(35,0)', 'decimal(38,0)'] -%}
            {%- set text = column if type == 'string' else 'lpad(cast(' ~ column ~ " as string), 35, '0')" -%}
            {%- set place = 'if(' ~ text ~ " rlike '^(?!0*$)[0-9]{35}$', " ~ text ~ ', null)' -%}
            {%- do order.sequences.append(loop.index0) -%}
        {%- elif name == layout.time -%}
            {%- set place = afterimage._sortable_text(layout.landed_at, 'timestamp') -%}
        {%- else -%}
            {%- set place = afterimage._sortable_text(column, type) -%}
        {%- endif -%}
        {%- if place is none -%}
            {%- do exceptions.raise_compiler_error(
                "dms_changes: `order_by` must list columns of text, bytes, whole numbers, decimals, dates or timestamps."
                ~ " Got: " ~ name ~ ", a " ~ type
            ) -%}
        {%- endif -%}
        {%- do order.places.append("nullif(" ~ place ~ ", '')") -%}
        {%- do order.empty.append('coalesce(' ~ text ~ " rlike '^" ~ ('0*' if loop.index0 in order.sequences) ~ "$', true)") -%}
        {%- do order.times.append('if(' ~ text ~ " rlike '^[0-9]{35}$', " ~ afterimage._sequence_time(text) ~ ', null)')
            if type == 'string' or loop.index0 in order.sequences -%}
    {%- endfor -%}
    {{ return({
        'place': 'concat(' ~ order.places | join(", '-', ") ~ ')' if order.places else 'cast(null as string)',
        'is_empty': order.empty | join(' and '),
        'time': 'coalesce(' ~ order.times | join(', ') ~ ')',
        'is_sequence': 0 in order.sequences,
    }) }}
{%- endmacro -%}
