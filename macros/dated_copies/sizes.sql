{#- The size of each copy, and reports of copies that are much smaller than the one before. -#}


{#- The number of keys of each copy. Rows that landed twice count once, and rows without a key not at all. -#}
{%- macro _copies_sizes(rows, place, condition, keys) -%}
    {%- set sizes = {} -%}
    {%- set query = 'select ' ~ place ~ ', count(distinct ' ~ keys | join(', ') ~ ') from ' ~ rows
        ~ ' as copies where ' ~ condition ~ ' group by 1' -%}
    {%- for row in run_query(query).rows if row[0] is not none -%}
        {%- do sizes.update({row[0]: row[1] | int}) -%}
    {%- endfor -%}
    {{ return(sizes) }}
{%- endmacro -%}


{#- Reports broken copies where there is no plan: in a first build or a full refresh all of them, and in a model that
    every run builds the newest copy alone, for it would report an older one each time. -#}
{%- macro _copies_check_sizes(macro_name, side, unique_key) -%}
    {%- if flags.WHICH not in ['run', 'build'] or model.resource_type != 'model'
        or afterimage._ignores_gaps(macro_name) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set sizes = afterimage._copies_sizes(side.rows, side.place, 'true', afterimage._quoted(unique_key)) -%}
    {%- set places = sizes.keys() | sort | list -%}
    {%- set builds_each_time = not afterimage._tracks_reads() and model.config.materialized != 'incremental' -%}
    {%- set small = [] -%}
    {%- for place in (places[-2:] if builds_each_time else places) -%}
        {%- if not loop.first and sizes[place] * 2 < sizes[loop.previtem] -%}
            {%- do small.append([place, loop.previtem]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do afterimage._copies_report_small(macro_name, side.relation, small, sizes) -%}
{%- endmacro -%}


{#- Warns that copies have less than half the keys of the one before: a broken copy would delete the rest. `small` are
    their places, each with that of the copy before. -#}
{%- macro _copies_report_small(macro_name, relation, small, sizes) -%}
    {%- if not small or afterimage._ignores_gaps(macro_name) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for place, previous in small -%}
        {%- do found.append(
            'the copy of ' ~ place ~ ' has ' ~ sizes[place] ~ ' rows, and the one before it ' ~ sizes[previous]
        ) -%}
    {%- endfor -%}
    {%- do afterimage._report_gap(
        macro_name ~ ': in ' ~ relation ~ ' ' ~ found | join('; ') ~ '. Rows that a copy lacks count as deleted.'
        ~ " Replace each copy that is broken, or set the var afterimage_on_gap to 'ignore'."
    ) -%}
{%- endmacro -%}
