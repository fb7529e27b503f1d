{#- The last change_seq that may count as the newest. -#}
{%- macro _qlik_latest_seq() -%}
    {{ return(modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '9' * 21) }}
{%- endmacro -%}
