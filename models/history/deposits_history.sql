{{ config(materialized='history', unique_key=['ID']) }}

select * from {{ ref('stg_db2__deposits') }}
