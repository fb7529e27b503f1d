{{
    afterimage.dated_copies(
        ref('price_copies'), unique_key=['sku'], copy_column='copied_on', columns=['sku', 'price']
    )
}}
