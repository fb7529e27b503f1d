{#- The warning for columns that differ from the before-image but are not flagged by the mask. NULL on either side
    contradicts nothing: Qlik writes it for values it did not capture. -#}
{%- macro _qlik_unflagged_warning(columns, types) -%}
    {%- set tests = {} -%}
    {%- for column in columns -%}
        {%- do tests.update({column: (
            '(' ~ afterimage._qlik_differs(column, types) ~ ' and not array_contains(flagged_columns, '
            ~ afterimage._literal(column) ~ '))'
        )}) -%}
    {%- endfor -%}
if(
    kind = 'update'
    and flagged_columns is not null
    and before_image is not null
    and (
        {%- for test in tests.values() %}
        {{ test }}{{ ' or' if not loop.last }}
        {%- endfor %}
    ),
    concat(
        'change_mask does not flag what changed: ',
        concat_ws(
            ', ',
            {%- for column, test in tests.items() %}
            if({{ test }}, {{ afterimage._literal(column) }}, null){{ ',' if not loop.last }}
            {%- endfor %}
        )
    ),
    null
)
{%- endmacro -%}
