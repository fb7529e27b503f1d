{{ config(materialized='history', unique_key=['PART_NO', 'WAREHOUSE']) }}

select * from {{ ref('stg_db2__spares') }}
