{#- Raises an error with a remedy if the data columns differ from those the staging table was built with. The run
    would fail anyway, since images are structs, but with an unreadable message. `columns` is a list of names, typed
    as in `relation`, or of {name, type}. `further_columns` are the columns that the macro adds to the contract. The
    docs can be generated all the same: one such model must not keep those of all others from being written. -#}
{%- macro _check_drift(macro_name, relation, columns, further_columns=[]) -%}
    {%- if flags.WHICH == 'generate' or not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set built = afterimage._relation_columns(this) | map(attribute='name') | list -%}
    {%- set missing = (afterimage._contract_columns() + further_columns) | reject('in', built) | list -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ this ~ " lacks " ~ missing ~ ", which this release of Afterimage adds. Run"
            ~ " `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table first if rows of the raw table"
            ~ " have been deleted."
        ) -%}
    {%- endif -%}
    {%- set is_named = columns[0] is string -%}
    {%- set types = afterimage._column_types(afterimage._relation_columns(relation) if is_named else columns) -%}
    {%- set columns = columns if is_named else types.keys() | list -%}
    {%- set fields = [] -%}
    {%- for name in columns -%}
        {%- do fields.append(afterimage._quote(name) ~ ': ' ~ types[name]) -%}
    {%- endfor -%}
    {%- set query -%}
        select
            typeof((select first(`after`) from {{ this }} where false)) as built,
            typeof(cast(null as struct<{{ fields | join(', ') }}>)) as found
    {%- endset -%}
    {%- set types = run_query(query).rows[0] -%}
    {#- A name with other capitals is another name, because `absent_columns` stores names as text. -#}
    {%- set known = get_columns_in_query('select `after`.* from ' ~ this ~ ' where false') -%}
    {%- if known == columns | list and afterimage._stored_type(types[0]) == afterimage._stored_type(types[1]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set added = columns | reject('in', known) | list -%}
    {%- set dropped = known | reject('in', columns) | list -%}
    {%- set differences = [] -%}
    {%- if added -%}
        {%- do differences.append('added: ' ~ added | join(', ')) -%}
    {%- endif -%}
    {%- if dropped -%}
        {%- do differences.append('dropped: ' ~ dropped | join(', ')) -%}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " have changed since " ~ this ~ " was built ("
        ~ (differences | join('; ') or 'a type: ' ~ types[0] ~ ' is now ' ~ types[1])
        ~ "). Run `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table first if rows of the raw table"
        ~ " have been deleted."
    ) -%}
{%- endmacro -%}
