{%- macro _trading_keys(stream, unique_key, condition='true') -%}
    {%- set trades = afterimage._key_trades(stream, unique_key, condition) -%}
    {{ return(afterimage._value('select count(*) from (' ~ trades ~ ') as key_trades')) }}
{%- endmacro -%}
