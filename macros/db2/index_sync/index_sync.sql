{#- Log of a text index, or the capture table in its place -> the keys to write to the index or to remove from it.
    Arguments: index_sync.yml. -#}
{%- macro index_sync(
    relation,
    unique_key,
    base=none,
    synchpoint=none,
    before_prefix='X',
    time_zone='UTC'
) -%}
    {%- do afterimage._check_names('index_sync', 'unique_key', unique_key, required=true) -%}
    {%- if afterimage._is_ahead_of([relation, base]) -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set names = afterimage._relation_columns(relation) | map(attribute='name') | map('upper') | list -%}
    {%- if 'IBMSNAP_OPERATION' in names -%}
        {%- if base is not none -%}
            {%- do exceptions.raise_compiler_error(
                "index_sync: `base` is for a log table. " ~ relation ~ " is a capture table, whose order is known."
                ~ " Got: " ~ base
            ) -%}
        {%- endif -%}
        {{ return(afterimage._db2_sync_by_capture_table(relation, unique_key, synchpoint, before_prefix)) }}
    {%- endif -%}
    {%- if base is none or synchpoint is not none -%}
        {%- do exceptions.raise_compiler_error(
            "index_sync: for a log table, `base` must be the relation with the table's present rows, and `synchpoint`"
            ~ " must be left out, as rows of the log are deleted once they are in the index. Got: base " ~ base
            ~ ", synchpoint " ~ synchpoint
        ) -%}
    {%- endif -%}
    {{ return(afterimage._db2_sync_by_log(relation, unique_key, base, time_zone)) }}
{%- endmacro -%}
