{#- The time in a change_seq (`YYYYMMDDHHmmSShh` and a 19-digit counter), to a hundredth of a second; NULL if it has
    none. -#}
{%- macro _qlik_seq_time(change_seq) -%}
try_cast(
    concat(
        {%- for start in [1, 5, 7, 9, 11, 13, 15] %}
        substr({{ change_seq }}, {{ start }}, {{ 4 if start == 1 else 2 }}), '{{ '--T::.Z'[loop.index0] }}'
        {{- ',' if not loop.last }}
        {%- endfor %}
    ) as timestamp
)
{%- endmacro -%}
