{#- What a model's compiled SQL says. -#}
{%- macro _intakes(sql) -%}
    {%- set intakes = [] -%}
    {%- for said in modules.re.findall('/\\* afterimage intake ([{].*?[}]) \\*/', sql) -%}
        {%- do intakes.append(fromjson(said)) -%}
    {%- endfor -%}
    {{ return(intakes) }}
{%- endmacro -%}
