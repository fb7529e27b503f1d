{#- Several histories of the same key on one time line. Arguments: macros/history/_history.yml. -#}
{%- macro history_join(histories, unique_key, meta_column_names=none) -%}
    {%- set macro_name = 'history_join' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- if histories is not mapping or not histories -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `histories` must map a column prefix to each history, such as "
            ~ "{'customer_': ref('customers_history')}. Got: " ~ histories
        ) -%}
    {%- endif -%}
    {%- if afterimage._needs_placeholder(histories.values()) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set output = afterimage._meta_columns(macro_name, meta_column_names, []) -%}
    {%- set columns = {} -%}
    {%- set metas = {} -%}
    {%- for prefix, history in histories.items() -%}
        {%- do columns.update({prefix: afterimage._existing_columns(macro_name, history)}) -%}
        {%- do metas.update({prefix: afterimage._columns_of_history(macro_name, history, meta_column_names)}) -%}
    {%- endfor -%}
    {%- set keys = afterimage._key_names(unique_key) -%}
    {%- set named_keys = afterimage._each(unique_key, '{column} as {key}') | join(', ') -%}

with

-- Every moment at which one of the histories begins or ends a version. A version that began and ended at one moment did
-- not exist by the clock.
moments as (
    {%- for prefix, history in histories.items() %}
    {%- set meta = metas[prefix] %}
    {%- set has_lasted = meta.valid_from ~ ' < ' ~ meta.valid_to %}
    {{ 'union' if not loop.first }}
    select
        {{ named_keys }},
        {{ meta.valid_from }} as moment

    from {{ history }}
    where not {{ meta.is_deleted }} and ({{ meta.is_current }} or {{ has_lasted }})
    union
    select
        {{ named_keys }},
        {{ meta.valid_to }} as moment

    from {{ history }}
    where not {{ meta.is_deleted }} and not {{ meta.is_current }} and {{ has_lasted }}
    {%- endfor %}

),

intervals as (

    select
        *,
        lead(moment) over (partition by {{ keys | join(', ') }} order by moment) as next_moment

    from moments

)

select
    {{ afterimage._each(unique_key, 'intervals.{key} as {column}') | join(', ') }},
    {%- for prefix, history in histories.items() %}
    {%- set alias = 'history_' ~ loop.index %}
    {%- set ours = metas[prefix].values() | map('lower') | list %}
    {%- for column in columns[prefix] %}
    {%- set name = afterimage._quote(column.name) %}
    {%- set is_key = column.name | lower in unique_key | map('lower') %}
    {%- if not is_key and (name | lower not in ours or name | lower == metas[prefix].history_id | lower) %}
    {{ alias }}.{{ name }} as {{ afterimage._quote(prefix ~ column.name) }},
    {%- endif %}
    {%- endfor %}
    {%- endfor %}
    intervals.moment as {{ output.valid_from }},
    intervals.next_moment as {{ output.valid_to }},
    intervals.next_moment is null as {{ output.is_current }}

from intervals
{%- for prefix, history in histories.items() %}
{%- set alias = 'history_' ~ loop.index %}
{%- set meta = metas[prefix] %}
left outer join {{ history }} as {{ alias }}
    on
        not {{ alias }}.{{ meta.is_deleted }}
        and {{ afterimage._each(unique_key, 'intervals.{key} <=> ' ~ alias ~ '.{column}') | join(' and ') }}
        and {{ alias }}.{{ meta.valid_from }} <= intervals.moment
        and ({{ alias }}.{{ meta.is_current }} or intervals.moment < {{ alias }}.{{ meta.valid_to }})
{%- endfor %}
-- Where no history has a row, there is a gap.
where
    {%- for prefix in histories %}
    {{ 'or ' if not loop.first }}history_{{ loop.index }}.{{ metas[prefix].history_id }} is not null
    {%- endfor %}
{%- endmacro -%}
