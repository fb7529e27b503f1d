{#- A query in brackets for the rows that a copy had, from the staging table. A change_id ends in the key's hash. -#}
{%- macro _copies_state(place) -%}
    {%- set query -%}
(
    select
        '{{ place }}' as place,
        last_change.image

    from (
        select max_by(struct(operation, coalesce(`after`, `before`) as image), change_seq) as last_change
        from {{ this }}
        where reject_reason is null and change_seq <= '{{ place }}'
        group by right(change_id, 32)
    ) as keys
    where last_change.operation <> 'delete'
)
    {%- endset -%}
    {{ return(query) }}
{%- endmacro -%}
