{#- Reads the markers of `_intake_marker` from a model's compiled SQL. -#}
{%- macro _intakes(sql) -%}
    {%- set intakes = [] -%}
    {%- for content in modules.re.findall('/\\* afterimage intake ([{].*?[}]) \\*/', sql) -%}
        {%- do intakes.append(fromjson(content)) -%}
    {%- endfor -%}
    {{ return(intakes) }}
{%- endmacro -%}
