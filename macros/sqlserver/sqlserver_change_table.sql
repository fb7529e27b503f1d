{#- SQL Server change table (`cdc.<capture instance>_CT`) -> change contract. Arguments: sqlserver_change_table.yml. -#}
{%- macro sqlserver_change_table(relation, unique_key, columns=none, lsn_times=none, earlier=none, time_zone='UTC') -%}
    {%- set macro_name = 'sqlserver_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- if afterimage._cannot_read_columns([relation, earlier, lsn_times]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set instances = [afterimage._sqlserver_table('relation', relation)] -%}
    {%- do instances.append(afterimage._sqlserver_table('earlier', earlier)) if earlier is not none -%}
    {#- The earlier of two instances has the rows from before the other began. -#}
    {%- do instances[-1].side.update({'keeps': 20}) -%}
    {%- set commits = afterimage._sqlserver_table('lsn_times', lsn_times) if lsn_times is not none -%}
    {%- set found = instances[0].columns -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set columns = afterimage._match_column_case(columns or found, found) -%}
    {#- The bits of a mask are in the order of the table, or, if it names all, of `columns`. -#}
    {%- do instances[0].update({'columns': columns if columns | length == found | length else found}) -%}
    {%- set common = columns | select('in', instances[-1].columns) | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, common) -%}
    {%- set unique_key = afterimage._in_column_order(unique_key, columns) -%}
    {%- set new_columns = afterimage._check_drift(macro_name, relation, columns) -%}
    {%- set sides = (instances + ([commits] if commits else [])) | map(attribute='side') | list -%}
    {%- set intake = afterimage._intake(macro_name, unique_key, sides, new_columns) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif %}
with

{{ afterimage._sqlserver_rows(instances, commits, intake.sides, columns, common, unique_key, time_zone) }},

{{ afterimage._distinct_rows(
    'judged_rows', by='change_group, operation, row_id', first='is_earlier, row_place, update_mask'
) }},

{{ afterimage._paired_rows('change_group', "operation in ('1', '2')", ['row_place', 'image', 'copies']) }},

{{ afterimage._sqlserver_changes(instances, columns, common, unique_key) }},

{{ afterimage._finish(
    intake, columns, unique_key,
    lacks=['changed_by'] + (['absent_columns'] if earlier is none else []),
    ties={
        'within': ['change_group'],
        'identity_order': 'own_key asc, operation asc, row_id asc',
        'order': 'row_id asc',
    },
    known={'unchanged_if': afterimage._loses_time() if commits else none},
    old_key='before_image is not null'
) }}
{%- endmacro -%}
