{{
    afterimage.qlik_change_table(
        ref('qlik_orders__ct'),
        unique_key=['customer_id', 'order_no'],
        header_columns=var('unit_header_columns', none),
        mask_encoding=var('unit_mask_encoding', none)
    )
}}
