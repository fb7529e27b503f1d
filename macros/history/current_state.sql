{#- A history -> the rows that live now, with few of its own columns. Arguments: macros/history/_history.yml. -#}
{%- macro current_state(history, meta_column_names=none) -%}
    {%- if afterimage._needs_placeholder([history]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set columns = afterimage._existing_columns('current_state', history) -%}
    {%- set meta = afterimage._columns_of_history('current_state', history, meta_column_names) -%}
    {%- set ours = meta.values() | map('lower') | list %}

select
    {%- for column in afterimage._quoted(columns | map(attribute='name')) if column | lower not in ours %}
    {{ column }},
    {%- endfor %}
    {{ meta.valid_from }},
    {{ meta.valid_from_seq }},
    {{ meta.version }},
    {{ meta.transaction_id }}

from {{ history }}
where {{ meta.is_current }} and not {{ meta.is_deleted }}
{%- endmacro -%}
