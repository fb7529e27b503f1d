{#- A landed table by its name: the relation, its columns, the project's nodes that are this table, and how a model
    refers to it; `source` says which source has to be declared for that, if any. -#}
{%- macro _scaffold_landed(argument, name) -%}
    {%- do afterimage._check_text('scaffold', argument, name) -%}
    {%- if not execute -%}
        {{ return({'columns': []}) }}
    {%- endif -%}
    {%- set identifier = name.split('.')[-1] -%}
    {%- set schema = name.split('.')[:-1] | join('.') or target.schema -%}
    {#- Not by load_relation, which refuses a name with capitals, as OpenEdge's tables have. -#}
    {%- set relation = api.Relation.create(schema=schema, identifier=identifier) -%}
    {%- set columns = afterimage._relation_columns(relation) -%}
    {%- if not columns -%}
        {%- do exceptions.raise_compiler_error(
            "scaffold: `" ~ argument ~ "` must be a table that exists, as schema.table or, in the schema "
            ~ target.schema ~ ", by its name alone. Got: " ~ name
        ) -%}
    {%- endif -%}

    {#- The session's own catalog may stand before the schema or not. -#}
    {%- set catalog = (run_query('select current_catalog()').columns[0].values()[0] ~ '.') | lower -%}
    {%- set full_name = (schema ~ '.' ~ identifier) | lower -%}
    {%- set short_name = modules.re.sub('^' ~ modules.re.escape(catalog), '', full_name) -%}
    {%- set names = [full_name, short_name, catalog ~ full_name] -%}
    {%- set here = namespace(reference=none, nodes=[]) -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['seed', 'model', 'snapshot'] -%}
        {%- if (node.schema ~ '.' ~ node.alias) | lower in names -%}
            {%- set here.reference = "ref('" ~ node.name ~ "')" -%}
            {%- set here.nodes = here.nodes + [node.unique_id] -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for node in graph.sources.values() -%}
        {%- if (node.schema ~ '.' ~ node.identifier) | lower in names -%}
            {%- set here.reference = "source('" ~ node.source_name ~ "', '" ~ node.name ~ "')" -%}
            {%- set here.nodes = here.nodes + [node.unique_id] -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set source_name = afterimage._scaffold_name(schema) -%}
    {{ return({
        'name': schema ~ '.' ~ identifier,
        'relation': relation,
        'identifier': identifier,
        'columns': columns,
        'nodes': here.nodes,
        'reference': here.reference or "source('" ~ source_name ~ "', '" ~ identifier ~ "')",
        'source': none if here.reference else {'name': source_name, 'schema': schema},
    }) }}
{%- endmacro -%}
