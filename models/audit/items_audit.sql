{{ config(materialized='audit', unique_key=['Item-Num']) }}

select * from {{ ref('stg_openedge__items') }}
