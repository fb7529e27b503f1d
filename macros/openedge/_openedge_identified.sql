{#- Adds to raw rows `kind`, `change_group` (the sequence; a malformed row is its own group) and `row_hash`. -#}
{%- macro _openedge_identified(rows, values) -%}
select
    *,
    if(
        has_seq,
        lpad(sequence, 19, '0'),
        concat('unordered-', md5({{ afterimage._exact_json('struct(*)') }}))
    ) as change_group,
    {{ afterimage._hash_of_values(values) | indent(4) }} as row_hash

from (
    select
        *,
        -- At most 19 digits, as in an int64.
        coalesce(sequence rlike '^[0-9]{1,19}$', false) as has_seq,
        case operation
            when '1' then 'insert'
            when '2' then 'delete'
            when '3' then 'before_image'
            when '4' then 'update'
            when '5' then 'field deleted'
            when '6' then 'partition dropped'
            when '7' then 'partition truncated'
            when '8' then 'partition deallocated'
            when '9' then 'tenant partition deallocated'
            when '10' then 'tenant partition dropped'
            when '11' then 'partition merged'
            when '12' then 'field added'
            else 'unknown'
        end as kind

    from {{ rows }}
) as recognised
-- All later windows and joins use the group, or the group and more, so one exchange serves them all.
distribute by change_group
{%- endmacro -%}
