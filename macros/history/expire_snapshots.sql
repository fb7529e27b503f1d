{#- A post-hook for a `table` on Iceberg, such as one of present rows. Each run replaces the whole table, and Iceberg
    keeps the previous table as a snapshot until somebody expires it:

        {{ config(materialized='table', post_hook='{{ afterimage.expire_snapshots() }}') }}

    It keeps the snapshots of the last `retain_days`, and older ones until one of them is twice as old. Other formats
    keep their files for `maintain_history`. -#}
{% macro expire_snapshots(retain_days=1) %}
    {%- do afterimage._check_number('expire_snapshots', 'retain_days', retain_days, required=true) -%}
    {%- if execute -%}
        {%- set format = afterimage._landing_format(this) -%}
        {%- if afterimage._of_format(format, 'expire_when_due')(this, retain_days) -%}
            {%- do log(model.name ~ ': snapshots older than ' ~ retain_days ~ ' days are gone', info=true) -%}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}
