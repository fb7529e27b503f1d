{{ config(materialized='<< materialized >>'<% if keeps_copies %>, post_hook='{{ afterimage.expire_snapshots() }}'<% endif %>) }}

{{ afterimage.current_state(ref('<< history >>')<% if meta %>, meta_column_names=<< meta >><% endif %>) }}
