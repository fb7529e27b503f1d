{{ config(materialized='history', unique_key=['pk_empno']) }}

select * from {{ ref('stg_netiq__view_usr') }}
