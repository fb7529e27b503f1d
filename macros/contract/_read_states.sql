{#- Raw table -> its state. -#}
{%- macro _read_states(intakes) -%}
    {%- set read = {} -%}
    {%- for intake in intakes -%}
        {%- do read.update({intake.name: intake.state}) -%}
    {%- endfor -%}
    {{ return(read) }}
{%- endmacro -%}
