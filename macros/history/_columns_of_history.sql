{#- Our columns in a history that is being read: by the given names, or by those of the model that keeps it. -#}
{%- macro _columns_of_history(macro_name, history, meta_column_names) -%}
    {%- if meta_column_names is not none or not execute -%}
        {{ return(afterimage._meta_columns(macro_name, meta_column_names, [])) }}
    {%- endif -%}
    {%- set found = namespace(names=none) -%}
    {#- Unit tests see no other model. Under a test's `where`, the relation is a query around the table. -#}
    {%- for node in graph.get('nodes', {}).values() if node.config.materialized == 'history' -%}
        {%- for known in [node, node.get('defer_relation')] if known -%}
            {%- if
                (history is string and ('from ' ~ known.relation_name ~ ' where ') in history)
                or (history is not string and history.identifier == known.alias and history.schema == known.schema)
            -%}
                {%- set found.names = node.config.meta_column_names -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(afterimage._meta_columns(macro_name, found.names, [])) }}
{%- endmacro -%}
