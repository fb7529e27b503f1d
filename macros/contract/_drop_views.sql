{%- macro _drop_views(views) -%}
    {%- for view in views -%}
        {%- do run_query('drop view if exists ' ~ view) -%}
    {%- endfor -%}
{%- endmacro -%}
