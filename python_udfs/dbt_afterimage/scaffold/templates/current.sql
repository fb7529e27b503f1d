{{ config(materialized='<< materialized >>') }}

{{ afterimage.current_state(ref('<< history >>')<% if meta %>, meta_column_names=<< meta >><% endif %>) }}
