{{ config(materialized='table') }}

{{ afterimage.change_accounting(ref('stg_qlik__accounts'), unique_key=['ID']) }}
