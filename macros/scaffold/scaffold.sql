{#- A landed change table -> the files that turn it into history. Arguments: macros/scaffold/scaffold.yml. -#}
{%- macro scaffold(
    relation,
    unique_key=none,
    name=none,
    system=none,
    table=none,
    base=none,
    metadata=none,
    tracking=none,
    uow=none,
    arguments={},
    file_format='iceberg',
    as_data=false
) -%}
    {%- if unique_key is not none -%}
        {%- do afterimage._check_names('scaffold', 'unique_key', unique_key, required=true) -%}
    {%- endif -%}
    {%- if arguments is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            "scaffold: `arguments` must map further arguments of the source macro to their values. Got: " ~ arguments
        ) -%}
    {%- endif -%}

    {%- set landed = afterimage._scaffold_landed('relation', relation) -%}
    {%- set others = {} -%}
    {%- for argument, value in {'base': base, 'metadata': metadata, 'tracking': tracking, 'uow': uow}.items() -%}
        {%- if value is not none -%}
            {%- do others.update({argument: afterimage._scaffold_landed(argument, value)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set found = afterimage._scaffold_recognise(landed, system, arguments) -%}
    {%- set plans = {
        'qlik_change_table': afterimage._scaffold_qlik_change_table,
        'qlik_messages': afterimage._scaffold_qlik_messages,
        'netiq_event_log': afterimage._scaffold_netiq_event_log,
        'db2_change_data': afterimage._scaffold_db2_change_data,
        'db2_text_log': afterimage._scaffold_db2_text_log,
        'openedge_change_table': afterimage._scaffold_openedge_change_table,
    } -%}
    {%- set existing = afterimage._scaffold_existing(landed, found, table, name) -%}
    {%- set key_notes = [] -%}
    {%- if unique_key is none and existing.history and existing.history.config.unique_key -%}
        {%- set key = existing.history.config.unique_key -%}
        {%- set unique_key = [key] if key is string else key -%}
        {%- do key_notes.append('unique_key: ' ~ unique_key | join(', ') ~ ', as in ' ~ existing.history.name ~ '.') -%}
    {%- endif -%}
    {%- set plan = plans[found.macro](landed, others, unique_key, table, arguments) -%}
    {%- set columns = plan.columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known('scaffold', 'unique_key', plan.unique_key, columns) -%}

    {%- set plan_name = afterimage._scaffold_name(name or plan.table) -%}
    {%- set drafts = afterimage._scaffold_files(
        plan_name, found, plan, landed, others, existing, arguments, file_format
    ) -%}
    {%- set files = drafts.files -%}
    {%- set findings = [found.text] + key_notes + plan.notes + drafts.notes -%}
    {%- if as_data -%}
        {%- set data = {'findings': findings, 'files': files, 'staging': drafts.staging} -%}
        {%- do log(tojson({'afterimage_scaffold': data})) -%}
    {%- else -%}
        {%- for finding in findings -%}
            {%- do print(finding) -%}
        {%- endfor -%}
        {%- for path, text in files.items() -%}
            {%- do print('\n-------- ' ~ path ~ '\n' ~ text) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(files) }}
{%- endmacro -%}
