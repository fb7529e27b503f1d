{%- macro _trading_keys(stream, unique_key, condition='true') -%}
    {%- set trades = afterimage._key_trades(stream, unique_key, condition) -%}
    {%- set query = 'select count(*) from (' ~ trades ~ ') as key_trades' -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
