{{ change_audit(ref('stg_netiq__usr'), unique_key=['idu']) }}
