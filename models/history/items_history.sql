{{ config(materialized='history', unique_key=['Item-Num'], ignore_columns=['scenario']) }}

select * from {{ ref('stg_openedge__items') }}
