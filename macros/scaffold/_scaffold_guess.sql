{%- macro _scaffold_guess(unique_key, from_what) -%}
    {{ return('unique_key: ' ~ unique_key | join(', ') ~ ', guessed from ' ~ from_what ~ '. Look it over.') }}
{%- endmacro -%}
