{{ config(materialized='history', unique_key=['PLANT', 'PART_NO']) }}

select * from {{ ref('stg_qlik__parts') }}
