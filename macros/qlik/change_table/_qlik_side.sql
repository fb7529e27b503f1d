{#- The rows of the change table, for the intake. Rows of one change_seq are read together; load rows and rows
    without a place are read with those of the same key. (Zeros are the change_seq of load rows, or an ordinary
    change_seq.) -#}
{%- macro _qlik_side(relation, layout) -%}
    {%- set header = layout.header -%}
    {%- set zeros = "'" ~ '0' * 35 ~ "'" -%}
    {%- set is_insert -%}
coalesce(nullif({{ header.change_oper }}, ''), {{ header.operation }}, '') in ('I', 'INSERT')
    and coalesce({{ header.operation }}, 'INSERT') = 'INSERT'
    {%- endset -%}
    {%- set group -%}
if(
    {{ afterimage._qlik_has_place(header.change_seq) }}
    or ({{ header.change_seq }} <=> {{ zeros }} and not ({{ is_insert }})),
    {{ header.change_seq }},
    cast({{ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) }} as string)
)
    {%- endset -%}
    {#- Spark cannot skip files by a trimmed column, so the condition is also on the bare column, where a leading
        blank sorts before all digits. -#}
    {%- set bounds = layout.header.change_seq ~ " between '<first>' and '<last>'" -%}
    {%- if layout.text_seq -%}
        {%- set bounds = '(' ~ layout.text_seq ~ " between '<first>' and '<last>~' or " ~ layout.text_seq ~ " < '0') and "
            ~ bounds -%}
    {%- endif -%}
    {{ return({
        'relation': relation,
        'group': group,
        'place': header.change_seq,
        'has_place': afterimage._qlik_has_place(header.change_seq),
        'reach': 8,
        'bounds': '(' ~ bounds ~ ')',
        'column': layout.text_seq or none,
        'known_unplaced': "known.change_seq < '" ~ '0' * 34 ~ "1'",
        'time': afterimage._sequence_time(header.change_seq),
        'keeps': 35,
        'latest': afterimage._qlik_latest_seq(),
    }) }}
{%- endmacro -%}


{#- The condition that a change_seq gives its row a place: 35 digits, and not the zeros that some landings make of a
    full load's empty one. -#}
{%- macro _qlik_has_place(change_seq) -%}
    coalesce({{ change_seq }} rlike '^(?!0*$)[0-9]{35}$', false)
{%- endmacro -%}
