{#- Drops by name: listing the schema fails if another thread drops a table meanwhile (a Hadoop catalog on a local
    disk). -#}
{%- macro _drop_scratch_tables(tables) -%}
    {%- for table in tables if table -%}
        {%- do run_query('drop table ' ~ table ~ ' purge') -%}
    {%- endfor -%}
{%- endmacro -%}
