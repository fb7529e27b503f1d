{#- How a `change_stream` remembers its raw tables in its table properties, and how the compiled SQL tells the
    materialization what to remember. -#}

{#- What earlier runs have read of a raw table:
    - `state`: what they remembered of it,
    - `at`: for dbt's `incremental`, which remembers nothing, the time of the last run that took in rows, in
      microseconds; that run read what was there by then,
    - `reason`: why both are missing. -#}
{%- macro _read_before(name) -%}
    {%- if not afterimage._tracks_reads() -%}
        {{ return({'state': none, 'at': afterimage._last_run(), 'reason': none}) }}
    {%- endif -%}
    {%- set remembered = afterimage._remembered() -%}
    {%- if afterimage._is_rolled_back(this, remembered.snapshot, afterimage._snapshot(this)) -%}
        {{ return({'state': none, 'at': none, 'reason': this ~ ' was rolled back'}) }}
    {%- endif -%}
    {{ return({
        'state': remembered.read.get(name), 'at': none, 'reason': 'there is no record of what was read before'
    }) }}
{%- endmacro -%}


{#- A time in the future does not say what was there by then. -#}
{%- macro _last_run() -%}
    {%- set last = afterimage._value('select unix_micros(max(ingested_at)) from ' ~ this) -%}
    {%- set now = afterimage._value('select unix_micros(current_timestamp())') -%}
    {{ return(last if last is not none and last <= now else none) }}
{%- endmacro -%}
