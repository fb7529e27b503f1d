{{ change_audit(ref('stg_openedge__items'), unique_key=['Item-Num']) }}
