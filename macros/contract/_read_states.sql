{#- Raw table -> its state. -#}
{%- macro _read_states(intakes) -%}
    {{ return(dict(zip(intakes | map(attribute='name'), intakes | map(attribute='state')))) }}
{%- endmacro -%}
