{{ change_audit(ref('stg_db2__accounts'), unique_key=['ID']) }}
