{{ config(materialized='audit', unique_key=['id']) }}

select * from {{ ref('stg_qlik__customers') }}
