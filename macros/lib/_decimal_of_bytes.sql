{#- The decimal in the bytes (hex digits) of an unscaled number, two's complement and high byte first, as a text;
    NULL if the bytes are none or more than 16. Spark has no function for more than 8. -#}
{%- macro _decimal_of_bytes(digits, scale) -%}
{%- set halves -%}
try_add(
    try_multiply(cast(conv(left(x, 16), 16, -10) as decimal(20, 0)), 18446744073709551616bd),
    cast(conv(right(x, 16), 16, 10) as decimal(20, 0))
)
{%- endset -%}
{%- set number = afterimage._let(
    'x', "if(length(h) between 2 and 32, lpad(h, 32, if(h >= '8', 'F', '0')), null)", halves
) -%}
concat(cast({{ afterimage._let('h', digits, number) }} as string), 'E-', {{ scale }})
{%- endmacro -%}
