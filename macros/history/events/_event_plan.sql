{#- What a caller's `facts` mean: the key's names, the columns that may be absent, and the steps that are needed. -#}
{%- macro _event_plan(unique_key, columns, facts, is_rebuilt=false, names_user=false) -%}
    {%- set key_names = unique_key | map('lower') | list -%}
    {%- set sparse = [] -%}
    {%- for column in columns if facts is none or column in facts.sparse_columns -%}
        {%- if column | lower not in key_names -%}
            {%- do sparse.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set trades = facts is none or facts.trades -%}
    {{ return({
        'key_names': afterimage._key_names(unique_key),
        'sparse': sparse,
        'truncates': facts is none or facts.truncates,
        'trades': trades,
        'events': 'judged_events' if trades else 'events',
        'carries': sparse | length > 0 and (facts is none or facts.carries),
        'carried': none if facts is none else facts.get('carried'),
        'is_rebuilt': is_rebuilt,
        'names_user': names_user,
    }) }}
{%- endmacro -%}
