{{ config(materialized='history', unique_key=['order_id']) }}

select * from {{ ref('stg_sqlserver__orders') }}
