{#- The audit's own columns, by the names from the config. -#}
{%- macro _audit_names(options) -%}
    {{ return(afterimage._meta_columns(
        options.macro_name, config.get('meta_column_names'), options.unique_key, afterimage._audit_columns()
    )) }}
{%- endmacro -%}
