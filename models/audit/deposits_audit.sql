{{ change_audit(ref('stg_db2__deposits'), unique_key=['ID']) }}
