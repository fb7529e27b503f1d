{{
    afterimage.db2_text_log(
        ref('db2_articles_log'),
        unique_key=['ARTICLE_ID', 'LANG'],
        base=ref('db2_articles'),
        columns=var('unit_columns', none),
        time_zone=var('unit_time_zone', 'UTC')
    )
}}
