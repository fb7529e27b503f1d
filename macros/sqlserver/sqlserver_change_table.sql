{#- SQL Server change table (`cdc.<capture instance>_CT`) -> change contract. Arguments: sqlserver_change_table.yml. -#}
{%- macro sqlserver_change_table(relation, unique_key, columns=none, lsn_times=none, earlier=none, time_zone='UTC') -%}
    {%- set macro_name = 'sqlserver_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- if afterimage._is_ahead_of([relation, earlier, lsn_times]) -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set given = {'relation': relation, 'earlier': earlier, 'lsn_times': lsn_times} -%}
    {%- set tables = [] -%}
    {%- for argument, table in given.items() if table is not none -%}
        {%- do tables.append(afterimage._sqlserver_table(argument, table)) -%}
    {%- endfor -%}
    {%- set instances = tables | selectattr('is_instance') | list -%}
    {%- set found = instances[0].data -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set columns = afterimage._as_spelled(columns or found, found) -%}
    {%- for instance in instances -%}
        {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns | select('in', instance.data) | list) -%}
    {%- endfor -%}
    {%- set unique_key = afterimage._in_order(unique_key, columns) -%}
    {#- The bits of a mask are in the order of the table, or, if it names all, of `columns`. -#}
    {%- do instances[0].update({'data': columns if columns | length == found | length else found}) -%}
    {#- Of two instances the earlier one has what there was before the other began. -#}
    {%- do instances[-1].side.update({'keeps': 20}) -%}
    {%- do afterimage._check_drift(macro_name, relation, columns) -%}
    {%- set intake = afterimage._intake(macro_name, tables | map(attribute='side') | list) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._nothing_staged()) }}
    {%- endif %}
{{ intake.marker }}
with

{{ afterimage._sqlserver_rows(tables, intake.sides, columns, unique_key, time_zone) }},

{{ afterimage._sqlserver_changes(instances, columns, unique_key) }},

{{ afterimage._finish(
    'described', intake, columns, unique_key,
    lacks=['changed_by'] if earlier is not none else ['changed_by', 'absent_columns'],
    within=['change_group'],
    identity_order='place asc, operation asc, row_id asc',
    tie_order='place asc, row_id asc',
    old_key='before_image is not null'
) }}
{%- endmacro -%}
