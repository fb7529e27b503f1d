{#- A MERGE of the rows of a query, `fresh`, into a table, `known`. Rows of `fresh` that meet the condition
    `removes` are deleted. If all rows are new, it is an INSERT. -#}
{%- macro _merge_rows(target_relation, rows, matches, names, removes=none, all_are_new=false) -%}
{%- if all_are_new -%}
insert into {{ target_relation }} ({{ names | join(', ') }})
select {{ names | join(', ') }} from ({{ rows }}) as fresh
{%- else -%}
merge into {{ target_relation }} as known
using ({{ rows }}) as fresh
    on {{ matches | indent(4) }}
{%- if removes %}
when matched and {{ removes }} then delete
{%- endif %}
when matched then update set
    {%- for name in names %}
    known.{{ name }} = fresh.{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
when not matched then insert ({{ names | join(', ') }})
values (
    {%- for name in names %}
    fresh.{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endif -%}
{%- endmacro -%}
