{#- What `scaffold` reads from a table of each system. Each macro returns a plan: the source `table`, its `unique_key`
    and `columns`, what else the source macro is called with (`call`: argument -> text), the rows that landed for this
    model (`landed_rows`: what every_row_accounted_for reads; none where nobody can tell), whether the system has
    before-images, and `notes`. -#}
{%- macro _scaffold_qlik_change_table(landed, others, unique_key, table, arguments) -%}
    {%- set prefix = afterimage._scaffold_prefix(landed, arguments) -%}
    {%- set data = [] -%}
    {%- for column in landed.columns if afterimage._qlik_header_name(column.name, prefix) is none -%}
        {%- do data.append(column) -%}
    {%- endfor -%}
    {%- if not data -%}
        {%- do afterimage._scaffold_stop(landed.name ~ " has no columns but those of its header.") -%}
    {%- endif -%}
    {%- set mask_encoding = arguments.get('mask_encoding') -%}
    {%- set layout = afterimage._qlik_layout(
        landed.relation, [data[0].name], none, prefix, arguments.get('header_columns'), mask_encoding
    ) -%}
    {%- set notes = [] -%}

    {%- if unique_key is none -%}
        {%- set query -%}
            select to_json(flagged) as ordinals, count(*) as deletes
            from (
                select decode_change_mask(
                    {{ layout.header.change_mask }}, {{ layout.header_columns }}
                    {%- if mask_encoding %}, '{{ mask_encoding }}'{% endif %}
                ) as flagged
                from {{ landed.relation }}
                where {{ layout.header.change_oper }} = 'D' or {{ layout.header.operation }} = 'DELETE'
            ) as deletes
            where size(flagged) > 0 and array_max(flagged) <= {{ layout.ordinals | length }}
            group by flagged
            order by deletes desc, flagged
        {%- endset -%}
        {%- set masks = run_query(query).rows -%}
        {%- set ordinals = fromjson(masks[0]['ordinals']) if masks else [] -%}
        {%- set unique_key = [] -%}
        {%- if ordinals and ordinals | length < data | length -%}
            {%- for ordinal in ordinals -%}
                {%- do unique_key.append(layout.ordinals[ordinal - 1]) -%}
            {%- endfor -%}
            {%- do notes.append(afterimage._scaffold_guess(
                unique_key, 'the change masks of ' ~ masks[0]['deletes'] ~ ' deletes, which flag the key alone'
            )) -%}
        {%- else -%}
            {%- do afterimage._scaffold_no_key(landed, 'no delete has a mask that flags some of the columns', data) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return({
        'table': modules.re.sub('(?i)__ct$', '', landed.identifier),
        'unique_key': unique_key,
        'columns': data,
        'call': {} if prefix == 'header__' else {'header_prefix': afterimage._literal(prefix)},
        'landed_rows': landed.reference,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}
