{{
    config(
        materialized='history',
        unique_key=['customer_id', 'order_no'],
        ignore_columns=['scenario'],
        deletes='version'
    )
}}

select * from {{ ref('stg_qlik__orders') }}
