{#- Whether a change would lose its time, because the table of commit times no longer has its commit. See _staged. -#}
{%- macro _loses_time() -%}
changes.changed_at is null and known.changed_at is not null and changes.source_rows <= known.source_rows
{%- endmacro -%}
