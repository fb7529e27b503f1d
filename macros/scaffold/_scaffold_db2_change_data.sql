{%- macro _scaffold_db2_change_data(landed, others, unique_key, table, arguments) -%}
    {%- set found = [] -%}
    {%- set types = {} -%}
    {%- for column in landed.columns if not (column.name | upper).startswith('IBMSNAP_') -%}
        {%- do found.append(column.name) -%}
        {%- do types.update({column.name | lower: column.type}) -%}
    {%- endfor -%}
    {%- set images = afterimage._db2_before_columns(found, types, [], arguments.get('before_prefix', 'X') or '') -%}
    {%- set columns = [] -%}
    {%- for name in found if name not in images.values() -%}
        {%- do columns.append({'name': name, 'type': types[name | lower]}) -%}
    {%- endfor -%}
    {%- if unique_key is none -%}
        {%- do afterimage._scaffold_no_key(landed, 'replication tables do not tell it', columns) -%}
    {%- endif -%}
    {%- set notes = [] -%}
    {%- if 'uow' not in others and 'IBMSNAP_LOGMARKER' not in landed.columns | map(attribute='name') | map('upper') -%}
        {%- do notes.append(
            'changed_at will not be known: a CD table has no commit times. Give `uow`, the table IBMSNAP_UOW.'
        ) -%}
    {%- endif -%}
    {{ return({
        'table': modules.re.sub('(?i)_+(cd|ccd)$|^(cd|ccd)_+', '', landed.identifier),
        'unique_key': unique_key,
        'columns': columns,
        'call': {'uow': others.uow.reference} if 'uow' in others else {},
        'landed_rows': landed.reference,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}
