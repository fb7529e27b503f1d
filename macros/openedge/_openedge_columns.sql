{#- The columns of a relation: metadata by its role, and data. Metadata has known names, which landings vary
    (`_Change_Sequence`, `_Array-Index`). A leading underscore alone proves nothing: fields of a source table may
    have one. -#}
{%- macro _openedge_columns(relation, declared, field_map) -%}
    {%- set of_change_table = {
        'tranid': 'transaction_id', 'timestamp': 'time', 'changesequence': 'sequence',
        'continuationposition': 'position', 'continuation': 'position', 'arrayindex': 'array_index',
        'fragment': 'fragment', 'operation': 'operation'
    } -%}
    {%- set of_tracking_table = {
        'policyid': 'policy_id', 'sourcetablenumber': 'table_number', 'changefieldmap': 'field_map',
        'sourcefieldmap': 'field_map', 'recid': 'record_id', 'sourcerowid': 'record_id', 'partitionid': 'partition_id',
        'sourcepartitionid': 'partition_id', 'tenantid': 'tenant_id', 'username': 'user_name',
        'version': 'unused', 'usermisc': 'unused', 'misc': 'unused'
    } -%}
    {%- set found = {'metadata': {}, 'data': [], 'names': []} -%}
    {%- for column in afterimage._existing_columns('openedge_change_table', relation) -%}
        {%- do found.names.append(column.name) -%}
        {%- set name = (column.name | lower | replace('-', '') | replace('_', ''))
            if column.name.startswith('_') else none -%}
        {%- if field_map is not none and column.name | lower == field_map | lower -%}
            {%- do found.metadata.update({'field_map': column}) -%}
        {%- elif name in of_change_table -%}
            {%- do found.metadata.update({of_change_table[name]: column}) -%}
        {%- elif name in of_tracking_table and column.name | lower not in declared | map('lower') -%}
            {%- if of_tracking_table[name] != 'field_map' or field_map is none -%}
                {%- do found.metadata.update({of_tracking_table[name]: column}) -%}
            {%- endif -%}
        {%- else -%}
            {%- do found.data.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}
