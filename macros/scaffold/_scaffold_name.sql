{#- A text as the name of a model: lower case, and nothing but letters, digits and underscores. -#}
{%- macro _scaffold_name(text) -%}
    {{ return(modules.re.sub('[^a-z0-9]+', '_', text | lower).strip('_') or 'changes') }}
{%- endmacro -%}
