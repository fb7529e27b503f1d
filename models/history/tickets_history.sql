{{ config(materialized='history', unique_key=['ticket_id']) }}

select * from {{ ref('stg_debezium__tickets') }}
