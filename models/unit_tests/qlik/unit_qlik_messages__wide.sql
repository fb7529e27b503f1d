{#- 16 columns of a real table; the eighth and the last changed in the message that is known of it. -#}
{%- set columns = [] -%}
{%- for number in range(1, 17) -%}
    {%- set name = {8: 'item_desc', 16: 'load_date_time'}.get(number, 'c' ~ number) -%}
    {%- do columns.append({'name': name, 'type': 'string'}) -%}
{%- endfor -%}
{{ afterimage.qlik_messages(ref('qlik_accounts__messages'), unique_key=['c1'], columns=columns) }}
