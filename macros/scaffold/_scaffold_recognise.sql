{#- Which system wrote a table: {macro, folder, title, text, described (column -> doc block)}. -#}
{%- macro _scaffold_recognise(landed, system, arguments) -%}
    {%- set systems = afterimage._scaffold_systems() -%}
    {%- if system is not none -%}
        {%- do afterimage._check_choice('scaffold', 'system', system, systems | map(attribute='macro') | list) -%}
    {%- endif -%}

    {%- set prefix = afterimage._scaffold_prefix(landed, arguments) -%}
    {%- set signs = {} -%}
    {%- for column in landed.columns -%}
        {%- do signs.update({afterimage._scaffold_sign(column.name, prefix): column.name}) -%}
    {%- endfor -%}
    {%- for standard, here in arguments.get('column_names', {}).items() if here | lower in signs -%}
        {%- do signs.update({standard: signs[here | lower]}) -%}
    {%- endfor -%}
    {%- set value = arguments.get('value', 'value') | lower -%}
    {%- if value in signs -%}
        {%- do signs.update({'value': signs[value]}) -%}
        {%- if afterimage._scaffold_has_envelope(landed, signs[value]) -%}
            {%- do signs.update({'an envelope': 'an envelope in ' ~ signs[value]}) -%}
        {%- endif -%}
    {%- endif -%}

    {%- set best = namespace(found=none, share=-1) -%}
    {%- for candidate in systems if system is none or candidate.macro == system -%}
        {%- set here = [] -%}
        {%- set missing = [] -%}
        {%- set described = {} -%}
        {%- for name, doc_block in candidate.columns.items() -%}
            {%- set sign = afterimage._scaffold_sign(name) -%}
            {%- if sign in signs -%}
                {%- do here.append(signs[sign]) -%}
                {%- if doc_block -%}
                    {%- do described.update({signs[sign]: candidate.macro ~ '__' ~ doc_block}) -%}
                {%- endif -%}
            {%- else -%}
                {%- do missing.append(name) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set lacks = namespace(any=false) -%}
        {%- for needed in candidate.needed -%}
            {%- set one_of = [needed] if needed is string else needed -%}
            {%- if not one_of | reject('in', missing) | list -%}
                {%- set lacks.any = true -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set share = here | length / candidate.columns | length -%}
        {%- if (system is not none or not lacks.any) and share > best.share -%}
            {%- set best.share = share -%}
            {%- set best.found = {
                'macro': candidate.macro,
                'folder': candidate.folder,
                'title': candidate.title,
                'described': described,
                'text': landed.name ~ ' is ' ~ candidate.title ~ ': ' ~ here | length ~ ' of the '
                    ~ candidate.columns | length ~ ' things it is known by are there (' ~ here | join(', ') ~ ')'
                    ~ (', missing: ' ~ missing | join(', ') if missing else '') ~ '.',
            } -%}
        {%- endif -%}
    {%- endfor -%}

    {%- if best.found is none -%}
        {%- set known = [] -%}
        {%- for candidate in systems -%}
            {%- set signs = candidate.columns.keys() | join(', ') -%}
            {%- do known.append('  ' ~ candidate.macro ~ ', ' ~ candidate.title ~ ': ' ~ signs) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            "scaffold: " ~ landed.name ~ " is no change table of a known system. Where columns are called otherwise,"
            ~ " say which it is with `system`, and how in `arguments`. The systems, and what each is known by:\n"
            ~ known | join('\n') ~ "\nIt has: " ~ landed.columns | map(attribute='name') | join(', ')
        ) -%}
    {%- endif -%}
    {{ return(best.found) }}
{%- endmacro -%}


{#- The form in which column names are compared: in any case, OpenEdge's with or without hyphens, Qlik's prefix by any
    name. -#}
{%- macro _scaffold_sign(name, prefix='header__') -%}
    {%- set name = name | lower -%}
    {%- set of_qlik = afterimage._qlik_header_name(name, prefix) -%}
    {%- if of_qlik is not none -%}
        {{ return('header__' ~ of_qlik) }}
    {%- elif name.startswith('_') -%}
        {{ return('_' ~ (name | replace('-', '') | replace('_', ''))) }}
    {%- endif -%}
    {{ return(modules.re.sub('^pk[0-9]+$', 'pknn', name)) }}
{%- endmacro -%}


{#- Whether one of the first rows holds a Qlik message: in JSON with its envelope or without, or in Avro. -#}
{%- macro _scaffold_has_envelope(landed, value) -%}
    {%- set type = (landed.columns | selectattr('name', 'equalto', value) | first).type -%}
    {%- if type not in ['string', 'binary'] -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set column = afterimage._quote(value) -%}
    {%- set text = 'cast(' ~ column ~ ' as string)' -%}
    {%- set query -%}
        select count_if(
            get_json_object({{ text }}, '$.magic') = 'atMSG'
            or get_json_object({{ text }}, '$.headers.operation') is not null
            or get_json_object({{ text }}, '$.message.headers.operation') is not null
            {%- if type == 'binary' %}
            or contains({{ column }}, cast('atMSG' as binary))
            {%- endif %}
        )
        from (select {{ column }} from {{ landed.relation }} where {{ column }} is not null limit 100) as first_rows
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0] > 0) }}
{%- endmacro -%}
