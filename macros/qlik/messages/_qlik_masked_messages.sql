{#- The CTE `masked`: the messages of the table, with decoded masks and their values before and after. -#}
{%- macro _qlik_masked_messages(layout) -%}
{%- if layout.table is not none -%}
    {%- set is_of_table = afterimage._is_table(layout.table, 'schema_name', 'table_name') -%}
{%- endif -%}
masked as (

    select
        located.*,
        {%- if layout.table is not none %}
        not {{ is_of_table }} as is_of_another_table,
        {%- endif %}
        decode_change_mask(change_mask, 0, 'hex') as changed_ordinals,
        decode_change_mask(column_mask, 0, 'hex') as present_ordinals,
        -- A delete has its row in data or in beforeData, or the key in one and the rest in the other.
        case
            when not operation_word <=> 'DELETE' or before_data is null then data
            when data is null then before_data
            else map_zip_with(data, before_data, (name, value, value_before) -> coalesce(value, value_before))
        end as row_values,
        if(operation_word = 'UPDATE', before_data, null) as before_values

    from {{ 'settled_transactions' if layout.complete_transactions else 'located' }} as located
    {%- if layout.table is not none and afterimage._is_incremental() %}
    left outer join (
        -- A waiting load may occur several times, with a number at its end.
        select distinct left(change_id, 32) as change_id
        from {{ this }}
        where reject_reason like concat({{ afterimage._qlik_no_schema() }}, '%')
    ) as waiting
        on located.message_id = waiting.change_id
    {%- endif %}
    {%- if layout.table is not none %}
    -- Messages of another table belong to that table's model. A message that waited here for its schema stays, because
    -- the model's table already holds it.
    where
        coalesce({{ is_of_table }}, true)
        {%- if afterimage._is_incremental() %}
        or waiting.change_id is not null
        {%- endif %}
    {%- endif %}

)
{%- endmacro -%}
