{#- A text of the log as a value of a type; NULL if it does not fit. Unlike a plain cast, try_cast rejects "1.5" for
    an int. A decimal is not rounded, and a date does not lose its time. -#}
{%- macro _netiq_cast(text, type) -%}
    {%- if type == 'string' -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return("try_to_binary(" ~ text ~ ", 'base64')") }}
    {%- elif type.startswith('decimal') -%}
        {{ return('if(' ~ afterimage._decimal_misfit(text, type) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- elif type == 'date' -%}
        {#- Spark ignores text after a date. -#}
        {{ return(
            'if(cast(try_cast(' ~ text ~ ' as date) as timestamp) = ' ~ afterimage._landed_time(text, 'string')
            ~ ', try_cast(' ~ text ~ ' as date), null)'
        ) }}
    {%- elif type.startswith('timestamp') -%}
        {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}
