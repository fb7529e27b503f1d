{#- The models that a landed table has already, by what they do and not by their names: {staging, history, current,
    audit}, each a node or none; `streams` has the names of all that stage it. -#}
{%- macro _scaffold_existing(landed, found, table, name) -%}
    {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | list -%}
    {%- set streams = [] -%}
    {%- for model in models if 'macro.afterimage.' ~ found.macro in model.depends_on.macros -%}
        {#- A topic or an event log holds the changes of several tables. -#}
        {%- set of_table = modules.re.search("\\btable\\s*=\\s*['\"]([^'\"]*)['\"]", model.raw_code) -%}
        {%- set is_other = table and of_table
            and of_table[1].split('.')[-1] | trim | lower != table.split('.')[-1] | trim | lower -%}
        {%- if not is_other and model.depends_on.nodes | select('in', landed.nodes) | list -%}
            {%- do streams.append(model) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set staging = afterimage._scaffold_chosen(streams, name and 'stg_' ~ found.folder ~ '__' ~ name) -%}
    {%- set of_stream = [] -%}
    {%- for model in models if staging and staging.unique_id in model.depends_on.nodes -%}
        {%- do of_stream.append(model) -%}
    {%- endfor -%}
    {%- set histories = of_stream | selectattr('config.materialized', 'equalto', 'history') | list
        + afterimage._scaffold_callers(of_stream, 'scd2') -%}
    {%- set history = afterimage._scaffold_chosen(histories, name and name ~ '_history') -%}
    {%- set of_history = [] -%}
    {%- for model in models if history and history.unique_id in model.depends_on.nodes -%}
        {%- do of_history.append(model) -%}
    {%- endfor -%}
    {%- set currents = afterimage._scaffold_callers(of_history, 'current_state') -%}
    {%- set audits = of_stream | selectattr('config.materialized', 'equalto', 'audit') | list
        + afterimage._scaffold_callers(of_stream, 'change_audit') -%}
    {{ return({
        'streams': streams | map(attribute='name') | sort,
        'staging': staging,
        'history': history,
        'current': afterimage._scaffold_chosen(currents, name and name ~ '_current'),
        'audit': afterimage._scaffold_chosen(audits, name and name ~ '_audit'),
    }) }}
{%- endmacro -%}


{#- Of several models the one with the name that `scaffold` would give, else the first by name. -#}
{%- macro _scaffold_chosen(models, name) -%}
    {%- set named = models | selectattr('name', 'equalto', name) | list -%}
    {{ return((named + (models | sort(attribute='name')) + [none])[0]) }}
{%- endmacro -%}
