{{ config(materialized='audit', unique_key=['ID']) }}

select * from {{ ref('stg_qlik__accounts') }}
