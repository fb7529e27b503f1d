{{ config(materialized='history', unique_key=['stop_id']) }}

select * from {{ ref('stg_dms__stops') }}
