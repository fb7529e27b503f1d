{#- Follows rows through all their key changes, however many, and keeps the values in tables beside the history
    until the run ends. Returns the last of these tables; none if no row took values with it. Each step follows twice
    as many key changes as the one before. With `rebuilt` (see _key_events) it starts at those places: the history
    holds what the rows had carried by then. -#}
{%- macro _follow_rows(target_relation, stream, columns, options, facts, rebuilt=none) -%}
    {%- if not facts.carries -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set plan = afterimage._event_plan(options.unique_key, names, facts, rebuilt is not none) -%}
    {%- set old_keys -%}
        select {{ afterimage._quoted(options.unique_key, '`before`.') | join(', ') }}
        from {{ stream }} as moves
        where reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}
    {%- endset -%}
    {%- set is_open = ['false'] -%}
    {%- for column in plan.sparse -%}
        {%- do is_open.append('not coalesce(value_' ~ loop.index ~ '.is_known, false)') -%}
    {%- endfor -%}
    {%- set followed = namespace(query=none, carried=none, is_done=false) -%}
    {%- set followed.query -%}
        with

        {{ afterimage._all_events(
            stream, options.unique_key, names, plan, rebuilt, of_keys=old_keys if rebuilt is none else none
        ) }},

        {{ afterimage._carried_values(plan) }}

        select * from carried
    {%- endset -%}
    {#- This allows 2 to the power of 40 key changes. -#}
    {%- for step in range(40) if not followed.is_done -%}
        {%- set table = afterimage._scratch_table(target_relation, 'brought_' ~ step, followed.query) -%}
        {%- do afterimage._drop_scratch_tables([followed.carried]) -%}
        {%- set followed.carried = table -%}
        {%- set open_rows = afterimage._value(
            'select count(*) from ' ~ table ~ ' where carried_by is not null and (' ~ is_open | join(' or ') ~ ')'
        ) -%}
        {%- set followed.is_done = open_rows == 0 -%}
        {%- set followed.query = afterimage._carried_from_earlier_keys(table, plan) -%}
    {%- endfor -%}
    {{ return(followed.carried) }}
{%- endmacro -%}
