{{ config(materialized='history', unique_key=['Sales-Rep'], ignore_columns=['scenario'], deletes='version') }}

select * from {{ ref('stg_openedge__reps') }}
