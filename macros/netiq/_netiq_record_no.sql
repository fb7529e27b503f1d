{#- record_id in 20 digits, for sorting; NULL if it is not a positive whole number. -#}
{%- macro _netiq_record_no(log) -%}
    {%- set text = afterimage._netiq_record_text(log) -%}
    {{ return(
        'if(' ~ text ~ " rlike '^0*[1-9][0-9]{0,19}$', lpad(trim(leading '0' from " ~ text ~ "), 20, '0'), null)"
    ) }}
{%- endmacro -%}
