{#- The row that stood before each of the `states`; for an end that is the state itself, which ends carry along. -#}
{%- macro _previous_state(keys) -%}
    {{ return('if(is_row, lag(state) over (' ~ afterimage._event_window(keys) ~ '), state)') }}
{%- endmacro -%}
