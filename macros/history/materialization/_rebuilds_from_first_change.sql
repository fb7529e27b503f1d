{#- Whether a run must rebuild its keys from their first change, because the history does not hold all that their
    later versions need. -#}
{%- macro _rebuilds_from_first_change(stream, options, plan, taken_in, facts, pending, slice) -%}
    {%- set reasons = {
        'the caller asks for it': afterimage._setting('afterimage_rebuild') is not none,
        'a version is what a whole transaction did': options.grain == 'transaction',
        'all versions show the last values of some columns': plan.overwritten | length > 0,
        'a change has left its place': pending.movable > 0,
        'a change was taken back': pending.min_rejected_seq is not none and pending.min_rejected_seq <= taken_in.max_seq,
        'rows took keys or columns along': pending.needs_all,
    } -%}
    {%- if reasons.values() | select | list -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- if plan.untracked | length > 0 and facts.sparse_columns | length > 0 -%}
        {#- A later change may lack the last value of an untracked column, which no version holds. -#}
        {%- do conditions.append(slice ~ ' and size(absent_columns) > 0') -%}
    {%- endif -%}
    {%- if plan.untracked | length > 0 and options.deletes == 'version' -%}
        {#- An end shows the same values. -#}
        {%- do conditions.append(
            slice ~ " and (operation in ('delete', 'truncate') or " ~ afterimage._changes_key(options.unique_key) ~ ')'
        ) -%}
    {%- endif -%}
    {%- if facts.truncates -%}
        {#- No version holds the time of a truncation that ended a row in the same place where it began. -#}
        {%- do conditions.append(
            "operation <> 'truncate' and change_seq in (select change_seq from " ~ stream
            ~ " as truncations where operation = 'truncate' and " ~ slice ~ ')'
        ) -%}
    {%- endif -%}
    {%- if not conditions -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select count(*) from ' ~ stream ~ ' as changes where (' ~ conditions | join(') or (') ~ ')'
    ) > 0) }}
{%- endmacro -%}
