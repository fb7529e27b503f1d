{{ config(materialized='history', unique_key=['ITEM']) }}

select * from {{ ref('stg_db2__stock') }}
