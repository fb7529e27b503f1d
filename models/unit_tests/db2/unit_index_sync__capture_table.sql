{{ afterimage.index_sync(ref('db2_deposits_cd'), unique_key=['ID'], synchpoint=var('unit_synchpoint', none)) }}
