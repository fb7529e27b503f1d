{#- Reports that rows of a raw table may be lost: it holds newer rows, but none of those that earlier runs took in,
    so the rows between them may be missing. `place` is SQL for a row's place in the order, `known` the place that
    earlier runs reached (none if they reached none). `is_change` separates changes from load rows. A
    sample (`--sample`) leaves earlier rows out on purpose. -#}
{%- macro _check_retention_gap(macro_name, relation, place, is_change, known) -%}
    {%- set reaction = afterimage._setting('afterimage_on_gap') -%}
    {%- do afterimage._check_choice(macro_name, 'var afterimage_on_gap', reaction, ['warn', 'error', 'ignore']) -%}
    {%- if known is none or reaction == 'ignore' or relation.event_time_filter -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Two queries that each stop at the first row: in a healthy table nearly every file has one. -#}
    {%- set place_query -%}
        select {{ place }} from {{ relation }}
        where {{ is_change }} and {{ place }}
    {%- endset -%}
    {%- if run_query(place_query ~ ' <= ' ~ afterimage._literal(known) ~ ' limit 1').rows | length > 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set newer = afterimage._value(
        'select min(place) from (' ~ place_query ~ ' > ' ~ afterimage._literal(known) ~ ') as newer_rows(place)'
    ) -%}
    {%- if newer is not none -%}
        {%- set message = (
            macro_name ~ ": " ~ relation ~ " begins at " ~ newer ~ ", but " ~ this ~ " has only read up to " ~ known
            ~ ". Rows between them may have been deleted before they were read. Land them again, or, if the table is"
            ~ " emptied after each run on purpose, set the var afterimage_on_gap to 'ignore'."
        ) -%}
        {%- if reaction == 'error' -%}
            {%- do exceptions.raise_compiler_error(message) -%}
        {%- endif -%}
        {%- do exceptions.warn(message) -%}
    {%- endif -%}
{%- endmacro -%}
