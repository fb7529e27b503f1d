{{ config(materialized='history', unique_key=['rental_id']) }}

select * from {{ ref('stg_dms__rentals') }}
