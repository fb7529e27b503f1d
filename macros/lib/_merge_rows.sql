{#- A MERGE of the rows of a query, `fresh`, into a table, `known`. Rows of `fresh` that meet the condition
    `removes` are deleted. `matches` is none if no row can be known; an INSERT is enough then. -#}
{%- macro _merge_rows(target_relation, rows, matches, names, removes=none) -%}
{%- if matches is none -%}
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
