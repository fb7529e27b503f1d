{#- Merges stretches, given as [beginning, first place, last place], into at most 30 ranges [first place, last
    place]. Beginnings are hex or decimal numbers; the ranges split at the widest gaps between them. -#}
{%- macro _merge_ranges(extents) -%}
    {%- set extents = extents | sort -%}
    {%- set gaps = [] -%}
    {%- for beginning, _first, _last in extents -%}
        {%- if not loop.first -%}
            {%- do gaps.append([beginning | int(base=16) - loop.previtem[0] | int(base=16), loop.index0]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set starts = (gaps | sort(reverse=true))[:29] | map('last') | list -%}
    {%- set ranges = [] -%}
    {%- for _beginning, first, last in extents -%}
        {%- if loop.first or loop.index0 in starts -%}
            {%- do ranges.append([first, last]) -%}
        {%- else -%}
            {%- set range = ranges.pop() -%}
            {%- do ranges.append([range[0], [range[1], last] | max]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(ranges) }}
{%- endmacro -%}
