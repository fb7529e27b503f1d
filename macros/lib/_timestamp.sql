{#- A date or time as SQL. It is given as text, or as SQL that yields it where that is allowed. -#}
{%- macro _timestamp(macro_name, argument, moment, may_be_sql=false) -%}
    {#- YAML reads a bare date as a date. -#}
    {%- set moment = moment if moment is string or moment is none else moment | string -%}
    {%- do afterimage._check_text(macro_name, argument, moment) -%}
    {%- if modules.re.match('[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?$', moment) -%}
        {{ return('timestamp ' ~ afterimage._literal(moment)) }}
    {%- elif may_be_sql -%}
        {{ return('(' ~ moment ~ ')') }}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": `" ~ argument ~ "` must be a date or time as text, such as '9999-12-31'. Got: " ~ moment
    ) -%}
{%- endmacro -%}
