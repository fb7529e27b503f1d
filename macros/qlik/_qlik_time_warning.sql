{#- The warning for a change without a timestamp of its own. -#}
{%- macro _qlik_time_warning(change_seq) -%}
if(
    {{ afterimage._sequence_time(change_seq) | indent(4) }} is null,
    'changed_at is unknown: neither timestamp nor change_seq has it',
    'changed_at is taken from change_seq'
)
{%- endmacro -%}
