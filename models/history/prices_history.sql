{{ config(materialized='history', unique_key=['sku']) }}

select * from {{ ref('stg_dated_copies__prices') }}
