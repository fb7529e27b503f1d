{#- record_id as a text. A NUMBER without a scale lands as 10.0000000000. -#}
{%- macro _netiq_record_text(log) -%}
    {{ return("regexp_replace(trim(cast(" ~ log.record_id ~ " as string)), '[.]0*$', '')") }}
{%- endmacro -%}
