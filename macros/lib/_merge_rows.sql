{#- A MERGE of the rows of a query, `fresh`, into a table, `known`. Rows of `fresh` that meet the condition
    `removes` are deleted. It is no INSERT even if all rows are new: of two runs at once both would add them, since
    only a MERGE notices in its commit that another has added rows that it would have matched. -#}
{%- macro _merge_rows(target_relation, rows, matches, names, removes) -%}
merge into {{ target_relation }} as known
using ({{ rows }}) as fresh
    on {{ matches | indent(4) }}
when matched and {{ removes }} then delete
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
{%- endmacro -%}
