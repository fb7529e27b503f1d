{{ config(materialized='audit', unique_key=['ID']) }}

select * from {{ ref('stg_db2__deposits') }}
