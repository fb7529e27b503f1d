{{ config(materialized='table') }}

{{ afterimage.change_accounting(ref('stg_qlik__customers'), unique_key=['id']) }}
