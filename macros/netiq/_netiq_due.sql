{#- A query for the groups that earlier runs held back and that are due now; none if there are none. -#}
{%- macro _netiq_due(layout, side) -%}
    {%- if not (layout.future_events and afterimage._is_incremental()) -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set due -%}
        select left(change_id, 20) from {{ this }}
        where reject_reason like 'held back:%' and changed_at <= timestamp '{{ layout.as_of }}'
    {%- endset -%}
    {%- if run_query(due ~ ' limit 1').rows | length == 0 -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([
        'select ' ~ side.group ~ ' from ' ~ layout.relation ~ ' where (' ~ side.where ~ ') and '
        ~ afterimage._netiq_record_no(layout.log) ~ ' in (' ~ due ~ ')'
    ]) }}
{%- endmacro -%}
