{#- SQL texts for names, literals, lists of columns and comparisons. `_each` is what the others are made of. -#}


{#- A piece of SQL for each column: the template with the column in place of `{column}`, its name as a literal in place
    of `{name}`, and its name from `_key_names` in place of `{key}`. -#}
{%- macro _each(columns, template) -%}
    {%- set pieces = [] -%}
    {%- for column in columns -%}
        {%- do pieces.append(template.format(
            column=afterimage._quote(column), name=afterimage._literal(column), key='_key_' ~ loop.index
        )) -%}
    {%- endfor -%}
    {{ return(pieces) }}
{%- endmacro -%}


{#- Column names as Spark identifiers, so that hyphens, leading underscores and reserved words work. Line breaks do
    not: we indent statements, which would change the name. -#}
{%- macro _quote(name) -%}
    {%- if (name ~ '.').splitlines() | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            "columns: a name must not have a line break. Rename the column, or select it under another name in a view."
            ~ " Got: " ~ name | tojson
        ) -%}
    {%- endif -%}
    {{ return('`' ~ (name | replace('`', '``')) ~ '`') }}
{%- endmacro -%}


{#- The columns, quoted, each after a prefix such as `image.`. -#}
{%- macro _quoted(columns, prefix='') -%}
    {{ return(afterimage._each(columns, prefix ~ '{column}')) }}
{%- endmacro -%}


{#- Columns as a list for SELECT, GROUP BY or PARTITION BY. -#}
{%- macro _quoted_list(columns) -%}
    {{ return(afterimage._quoted(columns) | join(', ')) }}
{%- endmacro -%}


{#- A text as a Spark literal. What ends a line is escaped: we indent statements, which would change the text. -#}
{%- macro _literal(text) -%}
    {%- set literal = namespace(text=text | replace('\\', '\\\\') | replace("'", "\\'")) -%}
    {%- if (text ~ '.').splitlines() | length > 1 -%}
        {%- for end, code in {
            '\n': '000a', '\r': '000d', '\x0b': '000b', '\x0c': '000c', '\x1c': '001c', '\x1d': '001d', '\x1e': '001e',
            '\x85': '0085', '\u2028': '2028', '\u2029': '2029'
        }.items() -%}
            {%- set literal.text = literal.text | replace(end, '\\u' ~ code) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return("'" ~ literal.text ~ "'") }}
{%- endmacro -%}


{#- `array('a', 'b')` of literals, typed even if it is empty. -#}
{%- macro _string_array(values) -%}
    {{ return('array(' ~ afterimage._each(values, '{name}') | join(', ') ~ ')' if values
        else 'cast(array() as array<string>)') }}
{%- endmacro -%}


{#- An array of the texts whose conditions hold, in order, from pairs of condition and text. `array_compact` would need
    less SQL, but Spark interprets all that it is given, instead of compiling it. -#}
{%- macro _texts_where(pairs) -%}
    {%- set texts = [] -%}
    {%- for condition, text in pairs -%}
        {%- do texts.append('if(' ~ condition ~ ', array(' ~ text ~ '), cast(array() as array<string>))') -%}
    {%- endfor -%}
    {{ return('flatten(array(' ~ texts | join(', ') ~ '))' if texts else 'cast(array() as array<string>)') }}
{%- endmacro -%}


{#- `named_struct('a', <prefix>a, 'b', <prefix>b)`: a struct whose field names are spelled as given. Columns in `chosen`
    are worked out by a template (see `_each`). -#}
{%- macro _struct(columns, prefix='', chosen=[], template=none) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- set value = template if column in chosen else prefix ~ '{column}' -%}
        {%- do fields.extend(afterimage._each([column], '{name}, ' ~ value)) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The type of a row with these columns. `types` are by name, or by name in small letters. -#}
{%- macro _row_type(columns, types) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- do fields.append(afterimage._quote(column) ~ ': ' ~ (types[column] or types[column | lower])) -%}
    {%- endfor -%}
    {{ return('struct<' ~ fields | join(', ') ~ '>') }}
{%- endmacro -%}


{#- Columns, as `_relation_columns` gives them -> their types by their names. -#}
{%- macro _column_types(columns) -%}
    {{ return(dict(zip(columns | map(attribute='name'), columns | map(attribute='type')))) }}
{%- endmacro -%}


{#- The parts of a nested type, a list of {path, type}: the fields of a struct, the key and the value of a map, the
    element of an array. `path` leads from the value to the part, or from an entry of the map; an element has none. -#}
{%- macro _parts_of_type(type) -%}
    {%- set texts, open = [''], namespace(brackets=0) -%}
    {%- for piece in modules.re.findall('[<>(),]|[^<>(),]+', type[type.index('<') + 1:-1]) -%}
        {%- set open.brackets = open.brackets + {'<': 1, '(': 1, '>': -1, ')': -1}.get(piece, 0) -%}
        {%- do texts.append('' if piece == ',' and open.brackets == 0 else texts.pop() ~ piece) -%}
    {%- endfor -%}
    {%- set parts = [] -%}
    {%- for text in texts -%}
        {%- set named = text.partition(':') if type.startswith('struct<') else ['', '', text] -%}
        {%- set name = ['key', 'value'][loop.index0] if type.startswith('map<') else named[0] | trim -%}
        {%- set path = '.' ~ afterimage._quote(name | replace('`', '')) if name else '' -%}
        {%- do parts.append({'path': path, 'type': named[2] | trim}) -%}
    {%- endfor -%}
    {{ return(parts) }}
{%- endmacro -%}


{#- NULL-safe equality of some fields of two structs. -#}
{%- macro _same_columns(left, right, columns) -%}
    {{ return(afterimage._each(columns, left ~ '.{column} <=> ' ~ right ~ '.{column}') | join(' and ')) }}
{%- endmacro -%}


{#- Whether the before-image has a value that differs from the row's known value. NULL proves nothing: a
    before-image may leave out columns that were not captured. Values are compared as texts by name, so that the SQL
    does not grow with the number of columns. But -0.0 is 0.0, and nested values of which one has several texts, such as
    maps in any order, are compared by themselves. A map inside of others proves nothing. `types` are by name. -#}
{%- macro _contradicts(row, types={}) -%}
{%- set fields -%}
from_json({{ afterimage._exact_json('before_image') }}, 'map<string, string>')
{%- endset -%}
{%- set own = fields | replace('before_image', row ~ '.image') ~ '[claim.key]' -%}
{%- set alone = [] -%}
{%- set floats = [] -%}
{%- for column, type in types.items() if modules.re.search('map<|float|double', type or '') -%}
    {%- do (alone if '<' in type else floats).append(column) -%}
{%- endfor -%}
(
    coalesce(
        exists(
            map_entries({{ fields }}),
            claim -> not coalesce(array_contains({{ row }}.unknown_columns, claim.key), false)
            {%- if alone %}
            and not array_contains({{ afterimage._string_array(alone) }}, claim.key)
            {%- endif %}
            and not coalesce({{ own }} = claim.value, false)
            {%- if floats %}
            and not coalesce(
                array_contains({{ afterimage._string_array(floats) }}, claim.key)
                and claim.value in ('0.0', '-0.0')
                and {{ own }} in ('0.0', '-0.0'),
                false
            )
            {%- endif %}
        ),
        false
    )
    {%- for column in alone if not modules.re.search('[<,:] *map<', types[column]) %}
    {%- set name = afterimage._quote(column) %}
    or (
        before_image.{{ name }} is not null
        and not coalesce(array_contains({{ row }}.unknown_columns, {{ afterimage._literal(column) }}), false)
        and not (
            {{ afterimage._comparable('before_image.' ~ name, types[column]) }}
            <=> {{ afterimage._comparable(row ~ '.image.' ~ name, types[column]) }}
        )
    )
    {%- endfor %}
)
{%- endmacro -%}


{#- Names for the key's columns between the CTEs, chosen to avoid clashes with data columns. -#}
{%- macro _key_names(unique_key) -%}
    {{ return(afterimage._each(unique_key, '{key}')) }}
{%- endmacro -%}


{#- The name of a key column in the findings of a test, which have columns of their own. -#}
{%- macro _finding_name(key) -%}
    {%- set is_ours = key | lower in ['change_seq', 'operation', 'disagreements', 'hint'] -%}
    {{ return(afterimage._quote('key_' ~ key if is_ours else key)) }}
{%- endmacro -%}


{#- SQL that names a value once and uses it several times in `body`: that of an aggregate over nothing which begins with
    the value. (Spark asks an element of a transformed array for its type and whether it may be NULL; with one such value
    within the other it asks twice as often for each.) -#}
{%- macro _let(name, value, body) -%}
aggregate(array(), {{ value }}, (value_, element_) -> value_, {{ name }} -> {{ body }})
{%- endmacro -%}


{#- The same with several pairs of name and value, each of which may use the names before it. Spark interprets all of
    it, instead of compiling it: a projection with such an expression copies the row once, and not once for each step. -#}
{%- macro _let_all(steps, body) -%}
    {%- set let = namespace(body=body) -%}
    {%- for name, value in steps | reverse -%}
        {%- set let.body = afterimage._let(name, value, let.body) -%}
    {%- endfor -%}
    {{ return(let.body) }}
{%- endmacro -%}
