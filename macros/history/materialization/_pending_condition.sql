{#- The condition on the stream that selects the changes which the table has not taken in. -#}
{%- macro _pending_condition(taken_in) -%}
    {%- if taken_in is none -%}
        {{ return('true') }}
    {%- endif -%}
    {#- The condition lists the gaps between the runs. With `not in`, files that hold a single run would not be
        skipped. -#}
    {%- set gaps = [] -%}
    {%- for run in taken_in.runs -%}
        {%- do gaps.append(
            '(ingested_at > timestamp_micros(' ~ (taken_in.runs[loop.index0 - 1] if loop.index0 else taken_in.until)
            ~ ') and ingested_at < timestamp_micros(' ~ run ~ '))'
        ) -%}
    {%- endfor -%}
    {%- do gaps.append(
        'ingested_at > timestamp_micros(' ~ (taken_in.runs[-1] if taken_in.runs else taken_in.until) ~ ')'
    ) -%}
    {{ return('(ingested_at is null or ' ~ gaps | join(' or ') ~ ')') }}
{%- endmacro -%}
