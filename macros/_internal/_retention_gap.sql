{#- Says so where rows of a raw table may have been lost: none is left of what earlier runs have taken in, and there are
    newer ones, so nobody knows what stood between them. `place` is SQL for a row's place in the order, `known` the place
    that the earlier runs have reached (none where they have not), `is_change` tells changes from load rows. -#}
{%- macro _check_retention_gap(macro_name, relation, place, is_change, known) -%}
    {%- set reaction = afterimage._setting('afterimage_on_gap') -%}
    {%- do afterimage._check_choice(macro_name, 'var afterimage_on_gap', reaction, ['warn', 'error', 'ignore']) -%}
    {%- if known is none or reaction == 'ignore' -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Two looks that end with the first row, for in a good table nearly every file has one. -#}
    {%- set look -%}
        select {{ place }} from {{ relation }}
        where {{ is_change }} and {{ place }}
    {%- endset -%}
    {%- if run_query(look ~ ' <= ' ~ afterimage._literal(known) ~ ' limit 1').rows | length > 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set newer = run_query(
        'select min(place) from (' ~ look ~ ' > ' ~ afterimage._literal(known) ~ ') as newer_rows(place)'
    ).columns[0].values()[0] -%}
    {%- if newer is not none -%}
        {%- set message = (
            macro_name ~ ": " ~ relation ~ " begins at " ~ newer ~ ", after " ~ known ~ ", up to where " ~ this
            ~ " has read. Rows between them may have been deleted before they were read. Load the table anew, or, if it "
            ~ "loses what was read on purpose, set the var afterimage_on_gap to ignore."
        ) -%}
        {%- if reaction == 'error' -%}
            {%- do exceptions.raise_compiler_error(message) -%}
        {%- endif -%}
        {%- do exceptions.warn(message) -%}
    {%- endif -%}
{%- endmacro -%}


{#- The first characters of the newest change_seq that earlier runs have taken in; none where there is none. A place
    after `at_most` does not count. Iceberg knows from its metadata whether a change is rejected, and where none is and it
    keeps whole change_seqs, the newest too. -#}
{%- macro _newest_place(width, at_most=none) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set rejected = run_query('select count(reject_reason) from ' ~ this).columns[0].values()[0] -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        {{ 'where reject_reason is null' if rejected > 0 }}
    {%- endset -%}
    {%- set newest = run_query(query).columns[0].values()[0] or none -%}
    {%- if newest is none or at_most is none or newest <= at_most -%}
        {{ return(newest) }}
    {%- endif -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        where reject_reason is null and change_seq <= '{{ at_most }}'
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0] or none) }}
{%- endmacro -%}


{#- The time up to which a change counts as the newest, for a run to decide what it reads: a day from its start. A
    change that says it is of 2099 would hide all that comes until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}
