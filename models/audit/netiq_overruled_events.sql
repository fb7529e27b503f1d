{{ config(materialized='table') }}

with

set_aside as (

    select
        'usr' as source_table,
        change_id,
        reject_reason,
        source_rows

    from {{ ref('stg_netiq__usr') }}
    where reject_reason is not null
    union all
    select
        'view_usr' as source_table,
        change_id,
        reject_reason,
        source_rows

    from {{ ref('stg_netiq__view_usr') }}
    where reject_reason is not null

),

read_reasons as (

    select
        *,
        regexp_extract(change_id, '^[0-9]{20}', 0) as record_no,
        regexp_extract(reject_reason, '^(?:overruled|row gone):.* record ([0-9]+)$', 1) as decided_by

    from set_aside

)

select
    source_table,
    change_id,
    cast(nullif(record_no, '') as decimal(20, 0)) as record_id,
    split(reject_reason, ':')[0] as verdict,
    cast(nullif(decided_by, '') as decimal(20, 0)) as decided_by_record_id,
    reject_reason,
    source_rows

from read_reasons
