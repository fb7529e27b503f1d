{#- The stream's columns. A new one is added to the table; earlier versions hold NULL there. -#}
{%- macro _checked_columns(target_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- set meta = afterimage._meta_columns(
        options.macro_name, options.meta_column_names, columns | map(attribute='name') | list
    ) -%}
    {%- set ours = meta.values() | map('lower') | list -%}
    {%- set known = {} -%}
    {%- for column in afterimage._relation_columns(target_relation) -%}
        {%- if afterimage._quote(column.name) | lower not in ours -%}
            {%- do known.update({column.name | lower: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set added = [] -%}
    {%- set place = namespace(after='first') -%}
    {%- for column in columns -%}
        {%- if column.name | lower not in known -%}
            {%- do added.append(afterimage._quote(column.name) ~ ' ' ~ column.type ~ ' ' ~ place.after) -%}
        {%- else -%}
            {%- do afterimage._check_same_type(
                options.macro_name, target_relation, column, known[column.name | lower]
            ) -%}
        {%- endif -%}
        {%- set place.after = 'after ' ~ afterimage._quote(column.name) -%}
    {%- endfor -%}
    {%- for name in known -%}
        {%- if name not in columns | map(attribute='name') | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                options.macro_name ~ ": the stream no longer has the column `" ~ name ~ "` of " ~ target_relation
                ~ ". Select it again, or run `dbt run --full-refresh --select " ~ model.name ~ "`."
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {#- Only now, so that an error leaves the table as it was; one by one, because one may come after another. -#}
    {%- for column in added -%}
        {%- do run_query('alter table ' ~ target_relation ~ ' add columns (' ~ column ~ ')') -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}
