{{ afterimage.qlik_change_table(ref('qlik_customers__ct'), unique_key=['id']) }}
