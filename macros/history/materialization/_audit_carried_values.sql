{#- The scratch table of the values that rows have taken to other keys; none if no row did. -#}
{%- macro _audit_carried_values(target_relation, stream, options, facts) -%}
    {%- if not facts.carries -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(afterimage._follow_rows(
        target_relation, stream, afterimage._stream_columns(options.macro_name, stream), options, facts
    )) }}
{%- endmacro -%}
