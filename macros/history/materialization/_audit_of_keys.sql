{#- The select of the audit for the keys in the table `touched`, or for all keys. -#}
{%- macro _audit_of_keys(stream, columns, options, facts, touched=none) -%}
    {%- do afterimage._check_known(
        options.macro_name, 'unique_key', options.unique_key, columns | map(attribute='name') | list
    ) -%}
    {{ return(afterimage._audit_rows(
        stream, columns, options.unique_key, afterimage._audit_names(options), options.load_valid_from, facts,
        afterimage._has_user(stream),
        of_keys='select ' ~ afterimage._key_names(options.unique_key) | join(', ') ~ ' from ' ~ touched if touched
    )) }}
{%- endmacro -%}
