{#- What a caller's `facts` mean: the key's names, the columns that may be absent, and the steps that are needed. -#}
{%- macro _event_plan(unique_key, columns, facts, is_rebuilt=false, names_user=false) -%}
    {%- set facts = facts or {'sparse_columns': columns, 'truncates': true, 'trades': true, 'carries': true} -%}
    {%- set key_names = unique_key | map('lower') | list -%}
    {%- set sparse = [] -%}
    {%- for column in columns if column in facts.sparse_columns and column | lower not in key_names -%}
        {%- do sparse.append(column) -%}
    {%- endfor -%}
    {{ return({
        'key_names': afterimage._key_names(unique_key),
        'sparse': sparse,
        'truncates': facts.truncates,
        'trades': facts.trades,
        'events': 'judged_events' if facts.trades else 'events',
        'carries': sparse | length > 0 and facts.carries,
        'carried': facts.get('carried'),
        'is_rebuilt': is_rebuilt,
        'names_user': names_user,
    }) }}
{%- endmacro -%}
