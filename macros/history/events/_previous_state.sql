{#- The row before each of the `states`. For an end that is its own state, since ends carry the row along. -#}
{%- macro _previous_state(keys) -%}
    {{ return('if(is_row, lag(state) over (' ~ afterimage._event_window(keys) ~ '), state)') }}
{%- endmacro -%}
