{#- [beginning, first place, last place] of each stretch -> at the most 30 [first place, last place], parted where the
    beginnings, which are numbers in hex or decimal digits, lie farthest apart. -#}
{%- macro _as_ranges(extents) -%}
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
