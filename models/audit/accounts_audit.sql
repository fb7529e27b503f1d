{{ change_audit(ref('stg_qlik__accounts'), unique_key=['ID']) }}
