{#- The time in a sequence of 35 digits (`YYYYMMDDHHmmSShh` and a 19-digit counter), to a hundredth of a second; NULL
    if it has none. -#}
{%- macro _sequence_time(sequence) -%}
try_cast(
    concat(
        {%- for start in [1, 5, 7, 9, 11, 13, 15] %}
        substr({{ sequence }}, {{ start }}, {{ 4 if start == 1 else 2 }}), '{{ '--T::.Z'[loop.index0] }}'
        {{- ',' if not loop.last }}
        {%- endfor %}
    ) as timestamp
)
{%- endmacro -%}
