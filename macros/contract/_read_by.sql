{#- Raw table -> its state. -#}
{%- macro _read_by(intakes) -%}
    {%- set read = {} -%}
    {%- for intake in intakes -%}
        {%- do read.update({intake.name: intake.state}) -%}
    {%- endfor -%}
    {{ return(read) }}
{%- endmacro -%}
