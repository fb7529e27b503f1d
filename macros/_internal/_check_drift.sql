{#- An error with its remedy where the raw table's data columns are no longer those that the staging table was built
    with. The run would fail anyway, since images are structs, but with a message that nobody can read. -#}
{%- macro _check_drift(macro_name, relation, columns) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select
            typeof((select first(`after`) from {{ this }} where false)) as built,
            typeof((select first({{ afterimage._struct(columns) }}) from {{ relation }} where false)) as found
    {%- endset -%}
    {%- set types = run_query(query).rows[0] -%}
    {%- if types[0] == types[1] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = get_columns_in_query('select `after`.* from ' ~ this ~ ' where false') -%}
    {%- set added = columns | reject('in', known) | list -%}
    {%- set gone = known | reject('in', columns) | list -%}
    {%- set differences = [] -%}
    {%- if added -%}
        {%- do differences.append('added: ' ~ added | join(', ')) -%}
    {%- endif -%}
    {%- if gone -%}
        {%- do differences.append('gone: ' ~ gone | join(', ')) -%}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " have changed since " ~ this ~ " was built ("
        ~ (differences | join('; ') or 'a type: ' ~ types[0] ~ ' is now ' ~ types[1])
        ~ "). Run once with --full-refresh, this model and those behind it; keep a copy of this model's table first if "
        ~ "the raw table no longer holds all that was taken in."
    ) -%}
{%- endmacro -%}
