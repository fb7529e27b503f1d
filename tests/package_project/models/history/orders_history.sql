{{ config(materialized='history', unique_key=['order_no']) }}

select * from {{ ref('stg_shop__orders') }}
