{#- Values in a form that stays the same if their types widen: a hash or a text of a value is part of what names a
    change. -#}


{#- A value in the widest type that its own may become. -#}
{%- macro _widest(expression, type) -%}
    {%- set widest = namespace(type=type or '') -%}
    {%- for narrow, wide in {
        'tinyint|smallint|int': 'bigint', 'float': 'double', 'decimal[(][0-9]+,([0-9]+)[)]': 'decimal(38,\\3)'
    }.items() -%}
        {#- What ends with a colon is the name of a field. -#}
        {%- set widest.type = modules.re.sub('(^|[<:,] ?)(' ~ narrow ~ ')(?=[,>]|$)', '\\1' ~ wide, widest.type) -%}
    {%- endfor -%}
    {{ return(expression if widest.type == (type or '') else 'cast(' ~ expression ~ ' as ' ~ widest.type ~ ')') }}
{%- endmacro -%}


{#- The columns of a row as expressions to hash. `types` are by name. -#}
{%- macro _hashable_columns(columns, types, prefix='') -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- set type = types.get(column, types.get(column | lower)) -%}
        {%- set value = afterimage._widest(prefix ~ afterimage._quote(column), type) -%}
        {#- xxhash64 skips the NULLs in an array, a struct or a map; their JSON shows them. A map within another type
            stays as it was written: another hash would be another name for what is staged. -#}
        {%- if not type or 'map<' not in type[4:] -%}
            {%- set value = afterimage._comparable(value, type) -%}
            {%- do values.append(value) -%}
        {%- endif -%}
        {%- if type and '<' in type -%}
            {%- do values.append(afterimage._exact_json(value)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro -%}


{#- A row whose JSON is made part of an identity. The JSON of whole numbers and decimals does not depend on their
    width, so that only floats must become wider. -#}
{%- macro _row_to_name(row, columns, types) -%}
    {%- set fields, has_floats = [], namespace(any=false) -%}
    {%- for column in columns -%}
        {%- set type = types.get(column, types.get(column | lower)) -%}
        {%- set value = row ~ '.' ~ afterimage._quote(column) -%}
        {%- if type and 'float' in type -%}
            {%- set has_floats.any = true -%}
            {%- set value = afterimage._widest(value, type) -%}
        {%- endif -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ value) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')' if has_floats.any else row) }}
{%- endmacro -%}
