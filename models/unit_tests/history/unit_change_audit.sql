{{ afterimage.change_audit(ref('stg_qlik__customers'), unique_key=['id']) }}
