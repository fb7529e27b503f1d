{{ afterimage.qlik_change_table(ref('qlik_stations__ct'), unique_key=['station_id']) }}
