{#- Several histories of the same key on one time line. Arguments: macros/history/_history.yml. -#}
{%- macro history_join(histories, unique_key, meta_column_names=none) -%}
    {%- set macro_name = 'history_join' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- if histories is not mapping or not histories -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `histories` must map a prefix of column names to each history, such as "
            ~ "{'customer_': ref('customers_history')}. Got: " ~ histories
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_ahead_of(histories.values()) -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set meta = afterimage._meta_columns(macro_name, meta_column_names, []) -%}
    {%- set ours = meta.values() | map('lower') | list -%}
    {%- set keys = afterimage._quoted_list(unique_key) -%}

with

-- Every moment at which one of the histories begins or ends a version. A version that began and ended at one
-- moment was never there by the clock, and falls out by itself.
moments as (
    {%- for history in histories.values() %}
    {{ 'union' if not loop.first }}
    select
        {{ keys }},
        {{ meta.valid_from }} as moment

    from {{ history }}
    where not {{ meta.is_deleted }}
    union
    select
        {{ keys }},
        {{ meta.valid_to }} as moment

    from {{ history }}
    where not {{ meta.is_deleted }} and {{ meta.valid_to }} is not null
    {%- endfor %}

),

intervals as (

    select
        *,
        lead(moment) over (partition by {{ keys }} order by moment) as next_moment

    from moments

)

select
    {%- for key in unique_key %}
    intervals.{{ afterimage._quote(key) }},
    {%- endfor %}
    {%- for prefix, history in histories.items() %}
    {%- set alias = 'history_' ~ loop.index %}
    {%- for column in afterimage._relation_columns(history) %}
    {%- set is_key = column.name | lower in unique_key | map('lower') %}
    {%- if not is_key and afterimage._quote(column.name) | lower not in ours %}
    {{ alias }}.{{ afterimage._quote(column.name) }} as {{ afterimage._quote(prefix ~ column.name) }},
    {%- endif %}
    {%- endfor %}
    {{ alias }}.{{ meta.history_id }} as {{ afterimage._quote(prefix ~ 'history_id') }},
    {%- endfor %}
    intervals.moment as {{ meta.valid_from }},
    intervals.next_moment as {{ meta.valid_to }},
    intervals.next_moment is null as {{ meta.is_current }}

from intervals
{%- for history in histories.values() %}
{%- set alias = 'history_' ~ loop.index %}
left outer join {{ history }} as {{ alias }}
    on
        {{ afterimage._same_columns('intervals', alias, unique_key) }}
        and not {{ alias }}.{{ meta.is_deleted }}
        and {{ alias }}.{{ meta.valid_from }} <= intervals.moment
        and ({{ alias }}.{{ meta.valid_to }} is null or intervals.moment < {{ alias }}.{{ meta.valid_to }})
{%- endfor %}
-- Where no history has a row, there is a gap.
where
    {%- for history in histories %}
    {{ 'or ' if not loop.first }}history_{{ loop.index }}.{{ meta.history_id }} is not null
    {%- endfor %}
{%- endmacro -%}
