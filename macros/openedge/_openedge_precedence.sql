{#- The declared order of changes with one sequence. -#}
{%- macro _openedge_precedence() -%}
case kind when 'insert' then 1 when 'update' then 2 when 'before_image' then 2 when 'delete' then 3 else 4 end
{%- endmacro -%}
