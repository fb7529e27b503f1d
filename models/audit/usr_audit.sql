{{ config(materialized='audit', unique_key=['idu']) }}

select * from {{ ref('stg_netiq__usr') }}
