{#- What raw tables must have in common if a model unites them, each by a call of its own. Until a run has asked, no
    table has been altered or replaced. -#}


{#- Raises an error if the raw tables have other columns than each other, or another order. Spark unites images by
    position: values would change places. Names with other capitals are other names, see _check_drift. A raw table of
    which a run reads nothing has the columns with which the table was `built`. -#}
{%- macro _refuse_other_shapes(intakes, built=[]) -%}
    {%- set shapes = [] -%}
    {%- for intake in intakes -%}
        {%- set shape = intake.new_shape or intake -%}
        {%- set columns = shape.get('columns', built) -%}
        {%- do shapes.append({'name': intake.name, 'columns': columns, 'types': shape.get('types')}) -%}
        {%- if columns != shapes[0].columns -%}
            {%- set lacking = columns | reject('in', shapes[0].columns) | list -%}
            {%- do exceptions.raise_compiler_error(
                'change_stream ' ~ model.name ~ ': the raw tables that a model unites must have the same columns, in'
                ~ ' one order and spelled alike. Add new ones to all of them (`alter table … add columns`), or write a'
                ~ ' model for each table, and unite these in the history, by the names of their columns. Got: '
                ~ intake.name
                ~ ' with ' ~ columns | join(', ') ~ '; ' ~ shapes[0].name
                ~ (' without ' ~ lacking | join(', ') if lacking else ' with ' ~ shapes[0].columns | join(', '))
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do afterimage._refuse_other_types(shapes | selectattr('types') | list) -%}
{%- endmacro -%}


{#- Raises an error if a column has types in these tables of which none is the widest. Spark's UNION takes one that all
    become. The next run would take that for a change of types, or a MERGE would cut doubles to the int of the table. -#}
{%- macro _refuse_other_types(shapes) -%}
    {%- set images = [] -%}
    {%- for shape in shapes -%}
        {%- set type = afterimage._row_type(shape.columns, shape.types) -%}
        {%- do images.append('select cast(null as ' ~ type ~ ') as image') -%}
    {%- endfor -%}
    {%- if images | unique | list | length < 2 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query = 'select image.* from (<images>) as united' -%}
    {%- set united = afterimage._column_types(
        afterimage._described(query | replace('<images>', images | join(' union all ')))
    ) -%}
    {%- for shape in shapes -%}
        {%- set image = images[loop.index0] -%}
        {%- for column in afterimage._described(query | replace('<images>', image))
            if afterimage._widenings(column.type, united[column.name], [column.name]) is none -%}
            {%- do exceptions.raise_compiler_error(
                'change_stream ' ~ model.name ~ ': in the raw tables that a model unites, a column must have one type, or'
                ~ ' narrower and wider ones. Give it one type, or write a model for each table, and unite these in the'
                ~ ' history. Got: `' ~ column.name ~ '`, which is ' ~ column.type ~ ' in ' ~ shape.name ~ ', and '
                ~ united[column.name] ~ ' once the tables are united'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro -%}
