{#- Upkeep of tables, as a run-operation:

        dbt run-operation maintain_history --args '{history: [customers_history, source:raw.customers__ct], retain_days: 30}'

    Merges small files, applies the delete files of past runs to the data files, and expires snapshots older than
    `retain_days`, which time travel and rollback can then no longer reach. Jinja cannot go on after a statement that
    failed; the command `afterimage maintain` does. Arguments: macros/history/_history.yml. -#}
{% macro maintain_history(history, retain_days=30) %}
    {%- set names = [history] if history is string else history -%}
    {%- if names is mapping or names is not sequence or not names or names | reject('string') | list -%}
        {%- do exceptions.raise_compiler_error(
            'maintain_history: `history` must be the name of a model or `source:<source>.<table>`, or a list of these. Got: '
            ~ history
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_number('maintain_history', 'retain_days', retain_days, required=true) -%}
    {%- if execute -%}
        {%- set relations = {} -%}
        {%- for name in names -%}
            {%- set is_source = name.startswith('source:') and '.' in name -%}
            {%- set nodes = graph.nodes.values() | selectattr('name', 'equalto', name)
                | selectattr('resource_type', 'in', ['model', 'snapshot', 'seed'])
                | rejectattr('config.materialized', 'in', ['view', 'ephemeral']) | list -%}
            {%- if not is_source and not nodes -%}
                {%- do exceptions.raise_compiler_error(
                    'maintain_history: `history` names a table that the project does not have. Got: ' ~ name
                ) -%}
            {%- endif -%}
            {#- All versions of a model have its name; not all of them may be built. -#}
            {%- for node in nodes -%}
                {%- set relation = afterimage._relation_of_node(node) -%}
                {%- set shown = name if nodes | length == 1 else node.alias -%}
                {%- if shown == name or afterimage._load_relation(relation) is not none -%}
                    {%- do relations.update({relation | string: [shown, relation]}) -%}
                {%- endif -%}
            {%- endfor -%}
            {%- if is_source -%}
                {%- set relation = source(*name[7:].split('.', 1)) -%}
                {%- do relations.update({relation | string: [name, relation]}) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- for name, relation in relations.values() -%}
            {%- do log(name ~ ': ' ~ afterimage._maintain(relation, retain_days), info=true) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- For the command `afterimage maintain`: `id` is that of a model, a snapshot or a source. -#}
{%- macro _maintain_node(id, retain_days) -%}
    {%- set node = graph.sources.get(id) or graph.nodes[id] -%}
    {{ return(afterimage._maintain(afterimage._relation_of_node(node), retain_days)) }}
{%- endmacro -%}


{%- macro _maintain(relation, retain_days) -%}
    {%- set format = afterimage._landing_format(relation) -%}
    {{ return(afterimage._of_format(format, 'maintain')(relation, retain_days)) }}
{%- endmacro -%}
