with

set_aside as (

    select
        'usr' as table_name,
        change_id,
        reject_reason,
        source_rows

    from {{ ref('stg_netiq__usr') }}
    where reject_reason is not null
    union all
    select
        'view_usr' as table_name,
        change_id,
        reject_reason,
        source_rows

    from {{ ref('stg_netiq__view_usr') }}
    where reject_reason is not null

)

select
    table_name,
    change_id,
    cast(nullif(regexp_extract(change_id, '^[0-9]{20}', 0), '') as decimal(20, 0)) as record_id,
    split(reject_reason, ':')[0] as verdict,
    cast(nullif(regexp_extract(reject_reason, '^(?:overruled|row gone):.* record ([0-9]+)$', 1), '') as decimal(20, 0)) as decided_by_record_id,
    reject_reason,
    source_rows

from set_aside
