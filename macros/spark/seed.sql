{#- dbt-spark's own seed loading turns NULL into the text `None`, breaks on quotes and backslashes, rounds wide
    numbers and casts each cell with its own binding (dbt-adapters issue 487). These overrides load every cell
    exactly: an empty cell is NULL, a `binary` column is read as hex, and cells are sent as plain literals. A cell
    that is not a value of its column's type fails the seed; Spark's cast alone would make it NULL. -#}
{% macro spark__create_csv_table(model, agate_table) %}
    {%- set types = afterimage._seed_column_types(model, agate_table) -%}
    {%- set sql -%}
        create table {{ this.render() }} (
            {%- for name, type in types.items() %}
            {{ adapter.quote_seed_column(name, model.config.get('quote_columns', none)) }} {{ type }}
            {%- if not loop.last %},{% endif %}
            {%- endfor %}
        )
        {{ file_format_clause() }}
        {{ partition_cols(label="partitioned by") }}
        {{ clustered_cols(label="clustered by") }}
        {{ location_clause() }}
        {{ comment_clause() }}
    {%- endset -%}
    {%- call statement('_') -%}{{ sql }}{%- endcall -%}
    {{ return(sql) }}
{% endmacro %}


{% macro spark__load_csv_rows(model, agate_table) %}
    {%- set types = afterimage._seed_column_types(model, agate_table) -%}
    {%- set names = [] -%}
    {%- set casts = [] -%}
    {%- for column, type in types.items() -%}
        {%- set name = 'c' ~ loop.index -%}
        {%- set misfit = afterimage._literal(
            'seed ' ~ model.name ~ ': column ' ~ column ~ ", '<cell>' is not a value of type " ~ type
            ~ '. Correct the cell or its column_types.'
        ) -%}
        {%- set value = 'unhex(' ~ name ~ ')' if type == 'binary' else 'cast(' ~ name ~ ' as ' ~ type ~ ')' -%}
        {%- set is_misfit = afterimage._misfit(name, value, type) -%}
        {%- if type == 'date' or type.startswith('timestamp') -%}
            {%- set is_misfit = '(' ~ is_misfit ~ ' or ' ~ afterimage._has_no_date(name)
                ~ (' or ' ~ afterimage._loses_time(name, type) if type != 'date' else '') ~ ')' -%}
        {%- endif -%}
        {%- do names.append(name) -%}
        {%- do casts.append(
            name if is_misfit is none else
            'case when ' ~ name ~ ' is null then null when ' ~ is_misfit
            ~ ' then raise_error(replace(' ~ misfit ~ ", '<cell>', " ~ name ~ ')) else ' ~ value ~ ' end'
        ) -%}
    {%- endfor -%}
    {#- Spark's own catalog keeps the columns of `partition_by` last, so the columns are named. -#}
    {%- set columns = [] -%}
    {%- for column in types -%}
        {%- do columns.append(adapter.quote_seed_column(column, model.config.get('quote_columns', none))) -%}
    {%- endfor -%}
    {%- set first = namespace(sql='') -%}

    {%- for chunk in agate_table.rows | batch(get_batch_size()) -%}
        {%- set rows = [] -%}
        {%- for row in chunk -%}
            {%- set cells = [] -%}
            {%- for cell in row -%}
                {#- Spark substitutes `${name}` even inside a literal, unless the dollar is hidden from it. -#}
                {%- do cells.append(
                    'null' if cell is none else afterimage._literal(cell | string) | replace('${', '\\u0024{')
                ) -%}
            {%- endfor -%}
            {%- do rows.append('(' ~ cells | join(', ') ~ ')') -%}
        {%- endfor -%}
        {%- set sql -%}
            insert into {{ this.render() }} ({{ columns | join(', ') }})
            select {{ casts | join(', ') }}
            from values {{ rows | join(',\n') }} as cells ({{ names | join(', ') }})
        {%- endset -%}
        {%- do adapter.add_query(sql, abridge_sql_log=True) -%}
        {%- set first.sql = first.sql or sql -%}
    {%- endfor -%}
    {{ return(first.sql) }}
{% endmacro %}


{#- Column name -> type, from `column_types` if given. Numbers too wide for a bigint or a double stay exact if
    a decimal holds them all. -#}
{%- macro _seed_column_types(model, agate_table) -%}
    {%- set declared = model.config.get('column_types', {}) -%}
    {%- set types = {} -%}
    {%- for name in agate_table.column_names -%}
        {%- set type = declared.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
        {%- if name not in declared and type == 'bigint' -%}
            {%- set widest = agate_table.columns[loop.index0].values_without_nulls() | map('abs') | max -%}
            {%- set type = 'decimal(38,0)' if widest is not undefined and widest >= 2 ** 63 else type -%}
        {%- elif name not in declared and type == 'double' -%}
            {%- set column = agate_table.columns[loop.index0] -%}
            {%- set numbers = [] -%}
            {%- for number in column.values_without_nulls() if number.is_finite() -%}
                {%- set digits = number.as_tuple() -%}
                {%- set count = digits.digits | length -%}
                {#- A double keeps 15 digits, and 16 or 17 where they are those that it is written with. -#}
                {%- do numbers.append({
                    'is_rounded': count > 15 and column.data_type.cast(number | float) != number,
                    'scale': [-digits.exponent, 0] | max, 'whole': [count + digits.exponent, 0] | max,
                }) -%}
            {%- endfor -%}
            {%- set scale = numbers | map(attribute='scale') | max -%}
            {%- set is_rounded = numbers | selectattr('is_rounded') | list | length > 0 -%}
            {%- if is_rounded and numbers | map(attribute='whole') | max + scale <= 38 -%}
                {%- set type = 'decimal(38,' ~ scale ~ ')' -%}
            {%- endif -%}
        {%- endif -%}
        {%- do types.update({name: type | lower}) -%}
    {%- endfor -%}
    {{ return(types) }}
{%- endmacro -%}


{#- dbt prefers the macros of a package that a project's `dispatch` names to those of the adapter. Ours are no better
    than dbt-databricks' own, so these two call those. -#}
{% macro databricks__create_csv_table(model, agate_table) %}
    {{ return(dbt.databricks__create_csv_table(model, agate_table)) }}
{% endmacro %}


{% macro databricks__load_csv_rows(model, agate_table) %}
    {{ return(dbt.databricks__load_csv_rows(model, agate_table)) }}
{% endmacro %}
