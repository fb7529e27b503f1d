{#- The project's settings and their defaults. The defaults are here and not in dbt_project.yml, because a macro
    called from another project's model sees only that project's vars. docs/reference/configuration.md explains
    them. -#}
{%- macro _setting(name) -%}
    {%- set defaults = {
        'afterimage_lookback_hours': none,
        'afterimage_load_valid_from': '1900-01-01 00:00:00',
        'afterimage_rebuild': none,
        'afterimage_on_gap': 'warn',
    } -%}
    {{ return(var(name, defaults[name])) }}
{%- endmacro -%}
