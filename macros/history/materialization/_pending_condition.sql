{#- The condition on the stream that selects the changes which the table has not taken in. -#}
{%- macro _pending_condition(taken_in) -%}
    {#- The condition lists the gaps between the runs. With `not in`, files that hold a single run would not be
        skipped. -#}
    {%- set gaps = [] -%}
    {%- for run in [taken_in.until] + taken_in.runs -%}
        {%- do gaps.append(
            'ingested_at > timestamp_micros(' ~ run ~ ')'
            ~ (' and ingested_at < timestamp_micros(' ~ loop.nextitem ~ ')' if not loop.last)
        ) -%}
    {%- endfor -%}
    {{ return('(ingested_at is null or (' ~ gaps | join(') or (') ~ '))') }}
{%- endmacro -%}
