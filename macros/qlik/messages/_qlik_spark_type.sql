{#- The Spark type of a column's Qlik type (Qlik, "Kafka target data types"). Nothing is lost: values without a Spark
    type (times, numerics of more than 38 digits) stay texts. -#}
{%- macro _qlik_spark_type() -%}
case upper(regexp_extract(properties.type, '^ *([A-Za-z0-9_]+)', 1))
    when 'BOOLEAN' then 'boolean'
    when 'INT1' then 'tinyint'
    when 'INT2' then 'smallint'
    when 'INT4' then 'int'
    when 'INT8' then 'bigint'
    when 'UINT1' then 'smallint'
    when 'UINT2' then 'int'
    when 'UINT4' then 'bigint'
    when 'UINT8' then 'decimal(20,0)'
    when 'REAL4' then 'float'
    when 'REAL8' then 'double'
    when 'NUMERIC'
        then if(
            numeric_precision between 1 and 38 and coalesce(numeric_scale, 0) between 0 and numeric_precision,
            concat('decimal(', numeric_precision, ',', coalesce(numeric_scale, 0), ')'),
            'string'
        )
    when 'DATE' then 'date'
    when 'DATETIME' then 'timestamp'
    when 'TIMESTAMP' then 'timestamp'
    when 'BYTES' then 'binary'
    when 'BLOB' then 'binary'
    else 'string'
end
{%- endmacro -%}
