{{ config(
    materialized='<< materialized >>',
    unique_key=<< key >>,
    <%- for option, value in options.items() %>
    << option >>=<< value >>,
    <%- endfor %>
    file_format='<< file_format >>'
) }}

select * from {{ ref('<< staging >>') }}
