{#- Types that widen: how a table of ours follows, as far as its format allows. -#}


{#- The form in which types are compared: as a table of ours stores them. Names of struct fields become lower case. -#}
{%- macro _stored_type(type) -%}
    {{ return(afterimage._of_model_format('stored_type')(type | lower)) }}
{%- endmacro -%}


{#- How one type becomes another by widening: a list of {path, type}, one for each column or field that gets a wider
    type; empty if the types are the same, none if it takes more than that. `path` is the names that lead to the
    column. -#}
{%- macro _widenings(built, found, path) -%}
    {%- if afterimage._stored_type(built) == afterimage._stored_type(found) -%}
        {{ return([]) }}
    {%- elif afterimage._of_model_format('widens')(built, found) -%}
        {{ return([{'path': path, 'type': found}]) }}
    {%- endif -%}
    {%- set kind = built.split('<')[0] -%}
    {#- Spark itself takes a type apart. -#}
    {%- set parts = {
        'struct': 'value.*',
        'array': 'get(value, 0) as element',
        'map': 'get(map_keys(value), 0) as key, get(map_values(value), 0) as value',
    }.get(kind) if '<' in built and found.startswith(kind ~ '<') -%}
    {%- if not parts -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query = 'select ' ~ parts ~ ' from (select cast(null as <type>) as value) as typed' -%}
    {%- set built_parts = afterimage._described(query | replace('<type>', built)) -%}
    {%- set found_parts = afterimage._described(query | replace('<type>', found)) -%}
    {%- if built_parts | map(attribute='name') | list != found_parts | map(attribute='name') | list -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set widenings = [] -%}
    {%- for part in built_parts -%}
        {%- set further = afterimage._widenings(part.type, found_parts[loop.index0].type, path + [part.name]) -%}
        {#- The key of a map cannot be altered. -#}
        {%- if further is none or (further and kind == 'map' and part.name == 'key') -%}
            {{ return(none) }}
        {%- endif -%}
        {%- do widenings.extend(further) -%}
    {%- endfor -%}
    {{ return(widenings) }}
{%- endmacro -%}


{#- Gives columns of a table their wider types, as `_widenings` lists them. This writes no row. -#}
{%- macro _widen_columns(target_relation, widenings) -%}
    {%- for widening in widenings -%}
        {%- do afterimage._of_model_format('widen_column')(
            target_relation, afterimage._quoted(widening.path) | join('.'), widening.type
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Whether a raw table's rows have the same values in a wider type. A file of texts may have a value that did not fit
    the narrow one. -#}
{%- macro _keeps_values(relation) -%}
    {{ return(afterimage._landing_format(relation) in ['iceberg', 'delta']) }}
{%- endmacro -%}


{#- Whether one decimal has a greater precision than another, and the same scale. -#}
{%- macro _is_wider_decimal(built, found) -%}
    {%- set decimals = modules.re.fullmatch(
        'decimal[(]([0-9]+),([0-9]+)[)] decimal[(]([0-9]+),([0-9]+)[)]', built ~ ' ' ~ found
    ) -%}
    {{ return(
        decimals is not none and decimals.group(3) | int > decimals.group(1) | int
        and decimals.group(4) == decimals.group(2)
    ) }}
{%- endmacro -%}


{#- Whether values have another text once they are wider: 0.1 of a float is 0.10000000149011612 of a double. -#}
{%- macro _rewords(widenings) -%}
    {{ return('double' in widenings | map(attribute='type')) }}
{%- endmacro -%}
