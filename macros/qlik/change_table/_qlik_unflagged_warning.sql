{#- The warning for columns that differ from the before-image but are not flagged by the mask. NULL on either side
    contradicts nothing: Qlik writes it for values it did not capture. -#}
{%- macro _qlik_unflagged_warning(columns, types) -%}
    {%- set unflagged = [] -%}
    {%- for column in columns -%}
        {%- set name = afterimage._literal(column) -%}
        {%- do unflagged.append(
            'if(' ~ afterimage._qlik_differs(column, types) ~ ' and not array_contains(flagged_columns, ' ~ name ~ '), '
            ~ name ~ ', null)'
        ) -%}
    {%- endfor -%}
if(
    kind = 'update' and flagged_columns is not null and before_image is not null,
    concat(
        'change_mask does not flag what changed: ',
        nullif(concat_ws(', ', {{ unflagged | join(', ') }}), '')
    ),
    null
)
{%- endmacro -%}
