{#- Change masks of Qlik and SQL Server in built-in SQL: what the UDF `decode_change_mask` says, without Python. A mask
    becomes the digits of a hex numeral, and these become numbers of 60 bits. Bit 0 is the first column's. -#}


{#- The digits of a mask as a hex numeral; NULL if it is none. `encoding` is `bytes` (the first byte has the lowest
    bits), `hex` (a numeral) or `hex_bytes` (text of bytes); by default text is `hex` and binary is `bytes`. `bits` is
    how many of them have a column. -#}
{%- macro _mask_digits(mask, bits, encoding=none, is_text=true) -%}
    {%- set encoding = encoding or ('hex' if is_text else 'bytes') -%}
    {%- if encoding == 'bytes' -%}
        {{ return(
            'cast(null as string)' if is_text
            else 'if(length(' ~ mask ~ ') <= 16384, ' ~ afterimage._turned_bytes('hex(' ~ mask ~ ')', bits) ~ ', null)'
        ) }}
    {%- endif -%}
    {%- set text = mask if is_text else 'cast(' ~ mask ~ ' as string)' -%}
    {%- set digits -%}
        if(
            length({{ text }}) <= 16384 and {{ text }} rlike '^\\s*(0[xX])?[0-9a-fA-F]*\\s*$',
            regexp_replace({{ text }}, '^\\s*(0[xX])?|\\s+$', ''), null
        )
    {%- endset -%}
    {%- if encoding == 'hex' -%}
        {{ return(digits) }}
    {%- endif -%}
    {{ return('if(length(' ~ digits ~ ') % 2 = 0, ' ~ afterimage._turned_bytes(digits, bits) ~ ', null)') }}
{%- endmacro -%}


{#- Hex digits of bytes with the last byte first. Few masks have more bytes than their columns need. -#}
{%- macro _turned_bytes(digits, bits) -%}
    {%- set needed = (bits + 7) // 8 -%}
    {%- set turned = [] -%}
    {%- for number in range(needed, 0, -1) -%}
        {%- do turned.append('substr(' ~ digits ~ ', ' ~ (2 * number - 1) ~ ', 2)') -%}
    {%- endfor -%}
    {{ return(
        'concat(if(length(' ~ digits ~ ') > ' ~ 2 * needed ~ ', array_join(reverse(transform(sequence(' ~ (needed + 1)
        ~ ', greatest(length(' ~ digits ~ ') div 2, ' ~ (needed + 1) ~ ')), k -> substr(' ~ digits
        ~ ", 2 * k - 1, 2))), ''), ''), " ~ turned | join(', ') ~ ')'
    ) }}
{%- endmacro -%}


{#- Whether the first byte of a mask of bytes, as hex digits, must be the highest one: so it has no bit past the `last`
    column, and if it were the lowest one, the mask would have some, or not the bit of a key column. `keys` are the
    ordinals of these, which each change has. -#}
{%- macro _mask_is_high_first(digits, last, keys) -%}
    {%- set numeral = "trim(leading '0' from " ~ digits ~ ')' -%}
    {%- set size = "(length(trim(trailing '0' from " ~ digits ~ ')) + 1) div 2' -%}
    {%- set high_first = '4 * length(' ~ numeral ~ ') - 4 + length(conv(left(' ~ numeral ~ ', 1), 16, 2))' -%}
    {%- set last_byte = 'substr(' ~ digits ~ ', 2 * (' ~ size ~ ') - 1, 2)' -%}
    {%- set low_first = '8 * (' ~ size ~ ') - 8 + length(conv(' ~ last_byte ~ ', 16, 2))' -%}
    {%- set reasons = [low_first ~ ' > ' ~ last] -%}
    {%- for key in keys -%}
        {%- set high_digit = 'substr(' ~ digits ~ ', -((' ~ key ~ ' + 3) div 4), 1)' -%}
        {%- set low_place = '2 * ((' ~ key ~ ' + 7) div 8) - ((' ~ key ~ ' - 1) % 8) div 4' -%}
        {%- set low_digit = 'substr(' ~ digits ~ ', ' ~ low_place ~ ', 1)' -%}
        {%- do reasons.append(
            afterimage._digit_has_bit(high_digit, key) ~ ' and not ' ~ afterimage._digit_has_bit(low_digit, key)
        ) -%}
    {%- endfor -%}
    {{ return('coalesce(' ~ high_first ~ ' <= ' ~ last ~ ' and (' ~ reasons | join(' or ') ~ '), false)') }}
{%- endmacro -%}


{#- Whether a hex digit of a mask has the bit of an ordinal. -#}
{%- macro _digit_has_bit(digit, ordinal) -%}
    {{ return(
        'coalesce(cast(conv(' ~ digit ~ ', 16, 10) as int) & shiftleft(1, (' ~ ordinal ~ ' - 1) % 4) <> 0, false)'
    ) }}
{%- endmacro -%}


{#- The first bits of a mask's digits, 60 in a number, which is 15 digits. -#}
{%- macro _mask_bits(digits, bits) -%}
    {%- set numbers = [] -%}
    {%- for first in range(0, bits, 60) -%}
        {%- set part = 'substr(' ~ digits ~ ', ' ~ -(first // 4 + 15) ~ ', 15)' -%}
        {%- do numbers.append('coalesce(cast(conv(' ~ part ~ ', 16, 10) as bigint), 0L)') -%}
    {%- endfor -%}
    {{ return('if(' ~ digits ~ ' is null, null, array(' ~ numbers | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Whether the numbers of _mask_bits have a bit. -#}
{%- macro _mask_has_bit(numbers, bit) -%}
    {{ return('(' ~ numbers ~ '[' ~ (bit // 60) ~ '] & ' ~ 2 ** (bit % 60) ~ 'L) <> 0') }}
{%- endmacro -%}


{#- Whether a mask's digits have no bit past the first ones. -#}
{%- macro _mask_has_no_more(digits, bits) -%}
    {%- set whole, rest = bits // 4, bits % 4 -%}
    {%- set first = '|[0-' ~ (2 ** rest - 1) ~ '][0-9a-fA-F]{' ~ whole ~ '}' if rest else '' -%}
    {{ return(digits ~ " rlike '^0*([0-9a-fA-F]{0," ~ whole ~ '}' ~ first ~ ")$'") }}
{%- endmacro -%}


{#- The ordinals of all bits of a mask's digits, from 1. -#}
{%- macro _mask_ordinals(digits) -%}
    {%- set has_bit = afterimage._digit_has_bit('substr(' ~ digits ~ ', -((k + 3) div 4), 1)', 'k') -%}
    {{ return('filter(sequence(1, 4 * length(' ~ digits ~ ') + 1), k -> ' ~ has_bit ~ ')') }}
{%- endmacro -%}


{#- For each `change_mask` of a query: the columns that it flags (NULL if it cannot be decoded), whether it has bits of
    the header columns, and the ordinals of bits past the last column. `ordinals` are the columns in the order of the
    bits, after the bits of the `header_columns`; of them those in `columns` are listed. A change table holds few
    distinct masks, so each is decoded once and then looked up. -#}
{%- macro _decoded_masks(masks, ordinals, columns, encoding, header_columns=0, is_text=true) -%}
{%- set bits = header_columns + ordinals | length -%}
{%- set flagged = [] -%}
{%- for column in ordinals if column in columns -%}
    {%- do flagged.append((
        afterimage._mask_has_bit('mask_bits', header_columns + ordinals.index(column)), afterimage._literal(column)
    )) -%}
{%- endfor -%}
{%- set of_header = [] -%}
{%- for first in range(0, header_columns, 60) -%}
    {%- set numeral = 2 ** ([header_columns - first, 60] | min) - 1 -%}
    {%- do of_header.append('(mask_bits[' ~ (first // 60) ~ '] & ' ~ numeral ~ 'L) <> 0') -%}
{%- endfor -%}
select
    change_mask,
    coalesce({{ of_header | join(' or ') or 'false' }}, false) as flags_header,
    if(mask_bits is null, null, {{ afterimage._texts_where(flagged) }}) as flagged_columns,
    if(
        {{ afterimage._mask_has_no_more('mask_digits', bits) }},
        cast(array() as array<int>),
        filter(
            transform({{ afterimage._mask_ordinals('mask_digits') }}, k -> k - {{ header_columns }}),
            k -> k > {{ ordinals | length }}
        )
    ) as unknown_ordinals

from (
    select
        change_mask,
        {{ afterimage._mask_digits('change_mask', bits, encoding, is_text) | indent(8) }} as mask_digits,
        {{ afterimage._mask_bits('mask_digits', bits) }} as mask_bits

    from {{ masks }}
) as decoded
{%- endmacro -%}
