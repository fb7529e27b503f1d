{#- Raises an error with a remedy if the data columns differ from those the staging table was built with. The run
    would fail anyway, since images are structs, but with an unreadable message. `columns` is a list of names, typed
    as in `relation`, or of {name, type}. `further_columns` are the columns that the macro adds to the contract. The
    docs can be generated all the same: one such model must not keep those of all others from being written. -#}
{%- macro _check_drift(macro_name, relation, columns, further_columns=[]) -%}
    {%- if flags.WHICH == 'generate' or not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set built = run_query('describe query select * from ' ~ this).columns[0].values() -%}
    {%- set missing = (afterimage._contract_columns() + further_columns) | reject('in', built) | list -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ this ~ " lacks " ~ missing ~ ", which this release of Afterimage or the macro's"
            ~ " arguments add. Run `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table first if rows"
            ~ " of the raw table have been deleted."
        ) -%}
    {%- endif -%}
    {%- set is_named = columns[0] is string -%}
    {%- set types = afterimage._column_types(afterimage._relation_columns(relation) if is_named else columns) -%}
    {%- set columns = columns if is_named else types.keys() | list -%}
    {#- A name with other capitals is another name, because `absent_columns` stores names as text. -#}
    {%- set known = get_columns_in_query('select `after`.* from ' ~ this ~ ' where false') -%}
    {%- set kept = columns | select('in', known) | list -%}
    {%- set query -%}
        select
            typeof((select first(`after`) from {{ this }} where false)) as built,
            typeof(cast(null as {{ afterimage._row_type(columns, types) }})) as found,
            typeof(cast(null as {{ afterimage._row_type(kept, types) }})) as found_of_known
    {%- endset -%}
    {%- set images = run_query(query).rows[0] -%}
    {%- set built = afterimage._stored_type(images['built']) -%}
    {%- if known == columns | list and built == afterimage._stored_type(images['found']) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set can_append =
        known == kept and built == afterimage._stored_type(images['found_of_known']) and afterimage._tracks_reads()
    -%}
    {%- if can_append and config.get('on_schema_change') == 'append_new_columns' -%}
        {%- do afterimage._append_columns(columns, types) -%}
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
        ~ (differences | join('; ') or 'a type: ' ~ images['built'] ~ ' is now ' ~ images['found'])
        ~ "). Run `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table first if rows of the raw table"
        ~ " have been deleted." ~ (" Or set `on_schema_change: append_new_columns`." if can_append else "")
    ) -%}
{%- endmacro -%}


{#- Adds the new columns to both images. What was read is forgotten first, so that this run, or the next if it is
    killed, reads all rows that the raw table still holds: they may have values in the new columns. -#}
{%- macro _append_columns(columns, types) -%}
    {%- if flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do run_query('alter table ' ~ this ~ " unset tblproperties if exists ('afterimage.read')") -%}
    {%- for image in ['before', 'after'] -%}
        {%- set known = get_columns_in_query('select `' ~ image ~ '`.* from ' ~ this ~ ' where false') -%}
        {%- set place = namespace(after='first') -%}
        {%- for name in columns -%}
            {%- if name not in known -%}
                {%- do run_query(
                    'alter table ' ~ this ~ ' add columns (`' ~ image ~ '`.' ~ afterimage._quote(name) ~ ' ' ~ types[name]
                    ~ ' ' ~ place.after ~ ')'
                ) -%}
            {%- endif -%}
            {%- set place.after = 'after ' ~ afterimage._quote(name) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do log(model.name ~ ': added the new columns of the raw table', info=true) -%}
{%- endmacro -%}
