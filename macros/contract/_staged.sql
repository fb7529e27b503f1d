{#- The last step of every source macro: the change contract's columns in order, and in an incremental run only the
    rows that are new or have gained something (a before-image, a copy), so that `ingested_at` means what it says.
    `further_columns` stand behind those of the contract. `intake` says what the run reads. `stays` is a condition on
    `known`, what the table holds of a change, by which that stays as it is. A change_stream learns which changes are
    known (`afterimage_known_seq`, which is not written). -#}
{%- macro _staged(changes, intake, further_columns=[], stays=none) -%}
    {%- set contract = afterimage._contract_columns() -%}
    {%- set says_what_is_known = afterimage._keeps_mark() and afterimage._is_incremental() -%}
    {%- set compared = contract | reject('equalto', 'change_id') | list + further_columns -%}
select
    {%- for column in contract %}
    {{ changes }}.{{ afterimage._quote(column) }},
    {%- endfor %}
    {{ afterimage._ingested_at() | indent(4) }} as ingested_at
    {%- for column in further_columns %},
    {{ changes }}.{{ afterimage._quote(column) }}
    {%- endfor %}
    {%- if says_what_is_known %},
    known.change_seq as afterimage_known_seq
    {%- endif %}

from {{ changes }}
{%- if afterimage._is_incremental() %}
left outer join {{ this }} as known
    on
        {{ changes }}.change_id = known.change_id
        {%- if intake.known_within %}
        and ({{ intake.known_within }})
        {%- endif %}
where
    (
        known.change_id is null
        or not (
            {%- for column in compared %}
            {{ changes }}.{{ afterimage._quote(column) }} <=> known.{{ afterimage._quote(column) }}
            {%- if not loop.last %} and{% endif %}
            {%- endfor %}
        )
    )
    {%- if stays %}
    and not coalesce({{ stays }}, false)
    {%- endif %}
{%- endif %}
{%- endmacro -%}


{#- The time of the run. A clock that was set back must not turn it back too: what the run takes in would look as if it
    had been there long ago, and no history would take it. -#}
{%- macro _ingested_at() -%}
{%- set now = "timestamp '" ~ run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f") ~ "'" -%}
{%- if not afterimage._is_incremental() -%}
    {{ return(now) }}
{%- endif -%}
greatest(
    {{ now }},
    (select max(earlier.ingested_at) from {{ this }} as earlier) + interval 1 microsecond
)
{%- endmacro -%}
