{{ config(materialized='history', unique_key=['idu']) }}

select * from {{ ref('stg_netiq__usr') }}
