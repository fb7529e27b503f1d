{#- Messages in, versions out. scd2 cannot look into a text, hence its `columns`. -#}
{%- set columns = ['CUSTOMER_ID', 'FIRST_NAME', 'LAST_NAME'] -%}
{%- set typed_columns = [] -%}
{%- for column in columns -%}
    {%- do typed_columns.append({'name': column, 'type': 'string'}) -%}
{%- endfor -%}
{{
    afterimage.scd2(
        '(' ~ afterimage.qlik_messages(
            ref('qlik_accounts__messages'), unique_key=['CUSTOMER_ID'], columns=typed_columns
        ) ~ ')',
        unique_key=['CUSTOMER_ID'],
        columns=columns,
        follow_keys=var('unit_follow_keys', false)
    )
}}
