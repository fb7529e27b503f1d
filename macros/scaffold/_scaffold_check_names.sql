{#- Stops where the new models would be tied to one that has their name and is of another table. -#}
{%- macro _scaffold_check_names(landed, names, systems) -%}
    {%- set there = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['seed', 'model', 'snapshot'] -%}
        {%- do there.update({node.name: node}) -%}
    {%- endfor -%}
    {%- set taken = [] -%}
    {%- if names.staging in there -%}
        {%- for system in systems if afterimage._scaffold_callers([there[names.staging]], system.macro) -%}
            {%- do taken.append(there[names.staging]) -%}
        {%- endfor -%}
    {%- else -%}
        {%- for name in [names.history, names.current, names.audit] if name in there -%}
            {%- do taken.append(there[name]) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if taken -%}
        {%- do afterimage._scaffold_stop(
            taken[0].name ~ " is in this project already (" ~ taken[0].original_file_path ~ ") and is not made from "
            ~ landed.name ~ ". Give `name`, after which the new models are called."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
