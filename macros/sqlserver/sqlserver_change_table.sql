{#- SQL Server change table (`cdc.<capture instance>_CT`) -> change contract. Arguments: sqlserver_change_table.yml. -#}
{%- macro sqlserver_change_table(relation, unique_key, columns=none, lsn_times=none, earlier=none, time_zone='UTC') -%}
    {%- set macro_name = 'sqlserver_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- if afterimage._needs_placeholder([relation, earlier, lsn_times]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {#- The earlier of two instances has the rows from before the other began, so a gap shows there. -#}
    {%- set instances = [afterimage._sqlserver_table('relation', relation, keeps=20 if earlier is none else none)] -%}
    {%- if earlier is not none -%}
        {%- do instances.append(
            afterimage._sqlserver_table('earlier', earlier, keeps=20, names=instances[0].columns)
        ) -%}
    {%- endif -%}
    {%- set commits = afterimage._sqlserver_table('lsn_times', lsn_times) if lsn_times is not none -%}
    {%- set found = instances[0].columns -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set mask = '__$update_mask' -%}
    {%- do afterimage._check_order(
        macro_name, 'relation', relation, mask, names_all=(columns or []) | length == found | length
    ) if mask in instances[0].header -%}
    {%- do afterimage._check_order(macro_name, 'earlier', earlier, mask)
        if earlier is not none and mask in instances[1].header -%}
    {%- set columns = afterimage._match_column_case(columns or found, found) -%}
    {#- The bits of a mask are in the order of the table, or, if it names all, of `columns`. What it leaves out in front
        of the header was added by a query: in a change table nothing stands there. -#}
    {%- set counted = [] -%}
    {%- for one in instances -%}
        {%- set added = one.in_front | reject('in', columns) | list if one.in_front != one.columns else [] -%}
        {%- do counted.append(dict(one, columns=one.columns | reject('in', added) | list)) -%}
    {%- endfor -%}
    {%- set instances = [dict(
        counted[0], columns=columns if columns | length == found | length else counted[0].columns
    )] + counted[1:] -%}
    {%- set common = columns | select('in', instances[-1].columns) | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, common) -%}
    {%- set unique_key = afterimage._in_column_order(unique_key, columns) -%}
    {%- set new_shape = afterimage._check_drift(macro_name, relation, columns) -%}
    {%- set sides = (instances + ([commits] if commits else [])) | map(attribute='side') | list -%}
    {%- set intake = afterimage._intake(
        macro_name, unique_key, sides, new_shape, made_by={'lsn_times': 'given' if commits else none},
        read_by={'time_zone': time_zone}
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif %}
with

{{ afterimage._sqlserver_rows(instances, commits, intake, columns, common, unique_key, time_zone) }},

{{ afterimage._distinct_rows(
    'classified_rows', by='change_group, operation, row_id', first='is_earlier, row_place, update_mask'
) }},

{{ afterimage._paired_rows('change_group', "operation in ('1', '2')", ['row_place', 'image', 'copies']) }},

{{ afterimage._sqlserver_changes(instances, columns, common, unique_key) }},

{#- A change whose row of the later instance is gone would lose the columns that the earlier one lacks. -#}
{%- set other_half = afterimage._keep_other_half(unique_key) -%}
{%- set lost_columns -%}
known.reject_reason is null
    and (
        size(array_except(
            changes.absent_columns,
            concat(
                coalesce(known.absent_columns, cast(array() as array<string>)),
                {{ afterimage._string_array(intake.added) }}
            )
        )) > 0
        {%- for name in afterimage._quoted(columns | reject('in', common) | list) %}
        or (known.`before`.{{ name }} is not null and changes.`before`.{{ name }} is null)
        {%- endfor %}
    )
{%- endset %}
{#- A copy in other words of an update's delete (operation 1) is a delete of its own. The row must outlive it. -#}
{{ afterimage._finish(
    intake, columns, instances[0].types, unique_key,
    lacks=['changed_by'] + (['absent_columns'] if earlier is none else []),
    ties={
        'within': ['change_group'],
        'identity_order': 'own_key asc, operation asc, row_id asc',
        'order': 'row_id asc',
        'comes_last': "(kind = 'update' and operation = '2')",
    },
    known=dict(
        other_half,
        unchanged_if='(' ~ other_half.unchanged_if ~ ') or (' ~ lost_columns ~ ')' if earlier is not none
            else other_half.unchanged_if
    ),
    old_key='before_image is not null'
) }}
{%- endmacro -%}


{#- What a change table or cdc.lsn_time_mapping has:
    - `header`: its own columns by name in lower case; `columns`, `types`: the data columns, and their types by name, with
      the capitals of `names`, where these have them; `in_front`: the data columns before the header,
    - `seqval`, `command`: SQL for these columns of a change table,
    - `side`: its side for the intake. The rows of a transaction are read together. -#}
{%- macro _sqlserver_table(argument, relation, keeps=none, names=[]) -%}
    {%- set needed = ['start_lsn', 'tran_end_time'] if argument == 'lsn_times'
        else ['__$start_lsn', '__$seqval', '__$operation'] -%}
    {%- set names_here = afterimage._relation_columns(relation) | map(attribute='name') | map('lower') | list -%}
    {%- if '__$seqval' in needed and '__$seqval' not in names_here and '__$start_lsn' in names_here -%}
        {%- do exceptions.raise_compiler_error(
            'sqlserver_change_table: `' ~ argument ~ '` must have the column __$seqval, which net changes lack. Land'
            ~ " all changes (the table cdc.<instance>_CT), or read net changes through a model, as"
            ~ ' docs/systems/sqlserver_change_table.md shows. Got: ' ~ relation ~ ' with the columns ' ~ names_here
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_columns('sqlserver_change_table', argument, relation, needed) -%}
    {%- set table = {'header': {}, 'types': {}, 'in_front': []} -%}
    {%- set spelled = dict(zip(names | map('lower'), names)) -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- set name = column.name | lower -%}
        {%- set is_header = name in needed or name.startswith('__$') -%}
        {%- do table.in_front.append(spelled.get(name, column.name)) if not (is_header or table.header) -%}
        {%- do table.header.update({name: column}) if is_header
            else table.types.update({spelled.get(name, column.name): column.type}) -%}
    {%- endfor -%}
    {%- set commit = afterimage._hex_digits(table.header[needed[0]]) -%}
    {%- set command = 'trim(cast(`__$command_id` as string))' if '__$command_id' in table.header
        else 'cast(null as string)' -%}
    {%- set seqval = afterimage._hex_digits(table.header['__$seqval']) if argument != 'lsn_times' -%}
    {%- set has_place = "(concat_ws(',', coalesce(" ~ commit ~ ", '')"
        ~ (", coalesce(" ~ seqval ~ ", ''), " ~ command if seqval) ~ ") rlike '^[0-9A-F]{20}(,[0-9A-F]{20}(,[0-9]{1,10})?)?$')" -%}
    {%- do table.update({'columns': table.types.keys() | list, 'seqval': seqval, 'command': command, 'side': {
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ commit ~ ", '')",
        'place': commit,
        'has_place': has_place,
        'reach': 12,
        'keeps': keeps,
        'bounds': afterimage._quote(needed[0]) ~ " between X'<first>' and X'<last>'"
            if table.header[needed[0]].type == 'binary' else commit ~ " between '<first>' and '<last>'",
    }}) -%}
    {{ return(table) }}
{%- endmacro -%}
