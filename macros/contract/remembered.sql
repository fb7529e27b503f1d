{#- Whether the model remembers what it has read. It needs a format that a run can add to. -#}
{%- macro _tracks_reads() -%}
    {{ return(
        this is not none and model.config.materialized == 'change_stream'
        and model.config.get('file_format') in ['iceberg', 'delta', 'hudi']
    ) }}
{%- endmacro -%}


{#- dbt's own `is_incremental` needs a table, which an ephemeral model or an inline query does not have, and it
    knows only dbt's own materialization. -#}
{%- macro _is_incremental() -%}
    {%- if not execute or not afterimage._tracks_reads() -%}
        {{ return(this is not none and is_incremental()) }}
    {%- endif -%}
    {%- set built = load_relation(this) -%}
    {{ return(built is not none and built.type == 'table' and not should_full_refresh()) }}
{%- endmacro -%}


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


{#- What the model's table remembers: {read: raw table -> state, snapshot: its own snapshot at that time}. -#}
{%- macro _remembered() -%}
    {%- set properties = afterimage._table_properties(this) -%}
    {%- set read = afterimage._from_property(properties.get('afterimage.read')) -%}
    {{ return({
        'read': fromjson(read) if read else {},
        'snapshot': properties.get('afterimage.snapshot', ''),
    }) }}
{%- endmacro -%}


{#- Stores what was read, and the snapshot of the model's table for which that holds. -#}
{%- macro _remember_read(target_relation, intakes, keeps_earlier) -%}
    {%- if intakes | rejectattr('is_remembered') | list | length == 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set read = afterimage._remembered().read if keeps_earlier else {} -%}
    {%- call statement('remember') -%}
        alter table {{ target_relation }} set tblproperties (
            'afterimage.read' = '{{ afterimage._as_property(tojson(dict(read, **afterimage._read_states(intakes)))) }}',
            'afterimage.snapshot' = '{{ afterimage._snapshot(target_relation) or '' }}'
        )
    {%- endcall -%}
{%- endmacro -%}


{#- Raw table -> its state. -#}
{%- macro _read_states(intakes) -%}
    {{ return(dict(zip(intakes | map(attribute='name'), intakes | map(attribute='state')))) }}
{%- endmacro -%}


{#- The comment in the compiled SQL that passes the state of the raw tables to the materialization. -#}
{%- macro _intake_marker(sides) -%}
    {%- set lines = [] -%}
    {%- for side in sides if side.state is not none and afterimage._tracks_reads() -%}
        {%- set content = {} -%}
        {%- for name in ['name', 'state', 'is_remembered', 'count', 'reason', 'views'] -%}
            {%- do content.update({name: side[name]}) -%}
        {%- endfor -%}
        {%- do lines.append('/* afterimage intake ' ~ tojson(content) ~ ' */\n') -%}
    {%- endfor -%}
    {{ return(lines | join) }}
{%- endmacro -%}


{#- Reads the markers of `_intake_marker` from a model's compiled SQL. -#}
{%- macro _intakes(sql) -%}
    {%- set intakes = [] -%}
    {%- for content in modules.re.findall('/\\* afterimage intake ([{].*?[}]) \\*/', sql) -%}
        {%- do intakes.append(fromjson(content)) -%}
    {%- endfor -%}
    {{ return(intakes) }}
{%- endmacro -%}


{#- The comment in the compiled SQL that says by which key a raw table is read. It is hex, because names of columns may
    end a comment. -#}
{%- macro _key_marker(intake, unique_key) -%}
    {%- if not afterimage._tracks_reads() -%}
        {{ return('') }}
    {%- endif -%}
    {%- set content = {'name': intake.sides[0].name, 'key': unique_key | map('lower') | sort} -%}
    {{ return('/* afterimage key ' ~ afterimage._as_property(tojson(content)) ~ ' */') }}
{%- endmacro -%}


{#- Reads the markers of `_key_marker` from a model's compiled SQL: a list of {name, key}. -#}
{%- macro _keys(sql) -%}
    {%- set keys = [] -%}
    {%- for content in modules.re.findall('/\\* afterimage key ([0-9a-f]+) \\*/', sql) -%}
        {%- do keys.append(fromjson(afterimage._from_property(content))) -%}
    {%- endfor -%}
    {{ return(keys) }}
{%- endmacro -%}


{%- macro _drop_views(views) -%}
    {%- for view in views -%}
        {%- do run_query('drop view if exists ' ~ view) -%}
    {%- endfor -%}
{%- endmacro -%}
