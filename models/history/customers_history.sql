{{ config(materialized='history', unique_key=['id'], ignore_columns=['scenario']) }}

select * from {{ ref('stg_qlik__customers') }}
