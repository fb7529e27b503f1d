{{ config(materialized='table') }}

{{ afterimage.change_accounting(ref('stg_netiq__usr'), unique_key=['idu']) }}
