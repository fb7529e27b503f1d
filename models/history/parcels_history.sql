{{ config(materialized='history', unique_key=['parcel_id']) }}

select * from {{ ref('stg_debezium__parcels') }}
