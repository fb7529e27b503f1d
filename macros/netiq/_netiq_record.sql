{#- The record_id in an event's place. -#}
{%- macro _netiq_record(place) -%}
    {{ return("trim(leading '0' from regexp_extract(" ~ place ~ ", '([0-9]{20})(?:[.][0-9]+)*$', 1))") }}
{%- endmacro -%}
