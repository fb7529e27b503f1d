{#- The rows of a CD or CCD table, for the intake. Rows of one commit are read together, rows without a place with
    those of the same key. A commit is read again when its time arrives in the UOW table. -#}
{%- macro _db2_sides(layout, relation, uow, condensed, time_zone) -%}
    {%- set has_place = afterimage._db2_has_place(layout) -%}
    {%- set sides = [{
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ afterimage._db2_place(layout.commitseq) ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'place': afterimage._db2_place(layout.commitseq),
        'has_place': has_place,
        'reach': 24,
        'bounds': afterimage._db2_bounds(layout),
        'time': afterimage._in_utc(layout.logmarker, time_zone) if layout.has_logmarker else none,
        'keeps': 32 if not condensed else none,
    }] -%}
    {%- if uow is not none -%}
        {%- do sides.append({
            'relation': uow.relation,
            'group': afterimage._db2_place(uow.commitseq),
            'where': afterimage._db2_is_place(uow.commitseq),
            'place': afterimage._db2_place(uow.commitseq),
            'has_place': 'true',
            'reach': 24,
        }) -%}
    {%- endif -%}
    {{ return(sides) }}
{%- endmacro -%}


{#- The condition that a commit is within bounds. Bytes are compared with bytes, in both lengths, so that Spark can
    skip files. -#}
{%- macro _db2_bounds(layout) -%}
    {%- if layout.commit_bytes is none -%}
        {{ return(afterimage._db2_place(layout.commitseq) ~ " between '<first>' and '<last>'") }}
    {%- endif -%}
    {{ return(
        '(' ~ layout.commit_bytes ~ " between X'<first>' and X'<last>' or " ~ layout.commit_bytes
        ~ " between unhex(substr('<first>', 13)) and unhex(substr('<last>', 13)))"
    ) }}
{%- endmacro -%}
