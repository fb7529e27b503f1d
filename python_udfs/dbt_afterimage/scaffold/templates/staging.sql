{{ config(
    materialized='change_stream',
    file_format='<< file_format >>'
) }}

{{ afterimage.<< macro >>(
    << reference >>
    <%- for argument, value in call.items() %>,
    << argument >>=<< value >>
    <%- endfor %>
) }}
