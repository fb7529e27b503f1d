{#- The UOW table, with the SQL of its columns. -#}
{%- macro _db2_uow(relation) -%}
    {%- do afterimage._check_columns('db2_change_data', 'uow', relation, ['IBMSNAP_COMMITSEQ', 'IBMSNAP_LOGMARKER']) -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.update({column.name | upper: column}) -%}
    {%- endfor -%}
    {{ return({
        'relation': relation,
        'commitseq': afterimage._hex_digits(found['IBMSNAP_COMMITSEQ']),
        'logmarker': afterimage._db2_time(found['IBMSNAP_LOGMARKER']),
    }) }}
{%- endmacro -%}
