{{ afterimage.index_sync(ref('db2_articles_log'), unique_key=['ARTICLE_ID', 'LANG'], base=ref('db2_articles')) }}
