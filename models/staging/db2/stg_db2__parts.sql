{{ db2_change_data(ref('db2_parts_ccd'), unique_key=['PART_NO', 'WAREHOUSE']) }}
