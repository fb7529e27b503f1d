{#- Whether a split record broke within this column, so that its two pieces belong together. -#}
{%- macro _openedge_is_broken(layout, field, column) -%}
    {%- if field.is_array -%}
        {{ return(
            'is_fragmented and highest_position = ' ~ field.number ~ ' and split_index = '
            ~ (field.names.index(column) + 1)
        ) }}
    {%- elif layout.types[column] in ['string', 'binary'] -%}
        {{ return('(is_fragmented or split_index > 0) and highest_position = ' ~ field.number) }}
    {%- endif -%}
    {{ return('false') }}
{%- endmacro -%}
