{%- macro _scaffold_db2_text_log(landed, others, unique_key, table, arguments) -%}
    {%- if 'base' not in others -%}
        {%- do afterimage._scaffold_stop(
            "give `base`, the table with the present rows: the log of a text index names keys and nothing else."
        ) -%}
    {%- endif -%}
    {%- set base = others.base -%}
    {%- set notes = [] -%}
    {%- if unique_key is none -%}
        {%- set log_keys = {} -%}
        {%- for column in landed.columns if modules.re.match('(?i)^pk[0-9]+$', column.name) -%}
            {%- do log_keys.update({column.name[2:] | int: column}) -%}
        {%- endfor -%}
        {%- set unique_key = [] -%}
        {%- set pairs = [] -%}
        {%- for number in log_keys.keys() | sort -%}
            {%- set fitting = base.columns | selectattr('type', 'equalto', log_keys[number].type)
                | rejectattr('name', 'in', unique_key) | map(attribute='name') | list -%}
            {%- if fitting -%}
                {%- do unique_key.append(fitting[0]) -%}
                {%- do pairs.append(
                    'log.' ~ afterimage._quote(log_keys[number].name) ~ ' = base.' ~ afterimage._quote(fitting[0])
                ) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if unique_key | length < log_keys | length -%}
            {%- do afterimage._scaffold_no_key(base, 'no column has the type of each PKnn', base.columns) -%}
        {%- endif -%}
        {%- set query -%}
            select
                (select count(*) from {{ base.relation }}) as base_rows,
                (
                    select count(distinct {{ afterimage._quoted_list(unique_key) }}) from {{ base.relation }}
                ) as base_keys,
                (
                    select count(*)
                    from {{ landed.relation }} as log
                    left semi join {{ base.relation }} as base on {{ pairs | join(' and ') }}
                ) as matches
        {%- endset -%}
        {%- set checked = run_query(query).rows[0] -%}
        {%- if checked['base_rows'] != checked['base_keys'] or checked['matches'] == 0 -%}
            {%- do afterimage._scaffold_no_key(
                base, unique_key | join(', ') ~ ' would fit by type, but the rows speak against it', base.columns
            ) -%}
        {%- endif -%}
        {%- do notes.append(afterimage._scaffold_guess(
            unique_key, 'the types of PKnn: these columns of ' ~ base.name ~ ' have them, they tell its rows apart,'
            ~ ' and ' ~ checked['matches'] ~ ' rows of the log find theirs by them'
        )) -%}
    {%- endif -%}
    {{ return({
        'table': base.identifier,
        'unique_key': unique_key,
        'columns': base.columns,
        'call': {'base': base.reference},
        'landed_rows': landed.reference,
        'has_before_images': false,
        'notes': notes,
    }) }}
{%- endmacro -%}
