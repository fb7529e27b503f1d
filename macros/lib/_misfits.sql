{#- What is wrong with the values of a map: an array of texts, empty if nothing is. -#}
{%- macro _misfits(columns, values, what) -%}
    {%- set checks = [] -%}
    {%- for column in columns -%}
        {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' -%}
        {%- set misfit = afterimage._misfit(text, column.type) -%}
        {%- if misfit is not none -%}
            {%- do checks.append(
                'if(' ~ text ~ ' is not null and ' ~ misfit ~ ', concat('
                ~ afterimage._literal(column.name ~ what ~ ' "') ~ ', left(' ~ text ~ ', 60), '
                ~ afterimage._literal('" (' ~ column.type ~ ')') ~ '), null)'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not checks -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {{ return('array_compact(array(' ~ checks | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Whether a text that is not NULL does not fit the type, or would lose something; none if every text fits. -#}
{%- macro _misfit(text, type) -%}
    {%- set base = type.split('(')[0] | trim -%}
    {%- set cast_text = afterimage._cast_text(text, type) -%}
    {%- if base in ['string', 'varchar', 'char'] -%}
        {{ return(none) }}
    {%- elif base in ['decimal', 'dec', 'numeric'] -%}
        {{ return(afterimage._decimal_misfit(text, type)) }}
    {%- elif base in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {{ return('(' ~ cast_text ~ " is null or not " ~ text ~ " rlike '^\\\\s*[-+]?[0-9]+([.]0*)?\\\\s*$')") }}
    {%- elif base == 'date' -%}
        {{ return('coalesce(cast(' ~ cast_text ~ ' as timestamp) <> try_cast(' ~ text ~ ' as timestamp), true)') }}
    {%- elif base == 'binary' -%}
        {{ return('(' ~ cast_text ~ ' is null or length(' ~ text ~ ') % 2 = 1)') }}
    {%- endif -%}
    {{ return(cast_text ~ ' is null') }}
{%- endmacro -%}
