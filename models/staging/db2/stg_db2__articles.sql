{{ config(materialized='change_stream') }}

{{
    afterimage.db2_text_log(
        ref('db2_articles_log'),
        unique_key=['ARTICLE_ID', 'LANG'],
        base=ref('db2_articles')
    )
}}
