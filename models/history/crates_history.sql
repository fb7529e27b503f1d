{{ config(materialized='history', unique_key=['crate_id']) }}

select * from {{ ref('stg_sqlserver__crates') }}
