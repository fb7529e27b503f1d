{#- What a `change_stream` remembers of its raw tables, in its table's properties, and how the compiled SQL tells the
    materialization what to remember. -#}

{#- What is known of what earlier runs have read of a raw table:
    - `state`: what was remembered of it,
    - `at`: for dbt's `incremental`, which remembers nothing, the time of the last run that took in something, in
      microseconds: it has read what was there by then,
    - `reason`: why there is neither. -#}
{%- macro _read_before(name) -%}
    {%- if not afterimage._keeps_mark() -%}
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


{#- Of a time to come nobody can say what was there by then. -#}
{%- macro _last_run() -%}
    {%- set last = run_query('select unix_micros(max(ingested_at)) from ' ~ this).columns[0].values()[0] -%}
    {%- set now = run_query('select unix_micros(current_timestamp())').columns[0].values()[0] -%}
    {{ return(last if last is not none and last <= now else none) }}
{%- endmacro -%}


{#- What the model's table remembers: {read: raw table -> state, snapshot: its own when that was said}. -#}
{%- macro _remembered() -%}
    {%- set properties = {} -%}
    {%- for row in run_query('show tblproperties ' ~ this) -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- set read = afterimage._from_property(properties.get('afterimage.read')) -%}
    {{ return({
        'read': fromjson(read) if read else {},
        'snapshot': properties.get('afterimage.snapshot', ''),
    }) }}
{%- endmacro -%}


{#- Whether a table of ours was rolled back since it said what it had read or taken in: that takes back the rows and not
    the properties. -#}
{%- macro _is_rolled_back(relation, snapshot, present) -%}
    {%- if not snapshot or present == snapshot -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set query -%}
        select count_if(not is_current_ancestor) from {{ relation }}.history
        where snapshot_id = {{ snapshot | int }}
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0] > 0) }}
{%- endmacro -%}


{#- What the compiled SQL says of the raw tables, for the materialization to remember and to report. -#}
{%- macro _intake_marker(sides) -%}
    {%- set lines = [] -%}
    {%- for side in sides if side.state is not none and afterimage._keeps_mark() -%}
        {%- set said = {} -%}
        {%- for name in ['name', 'state', 'is_remembered', 'count', 'reason', 'views'] -%}
            {%- do said.update({name: side[name]}) -%}
        {%- endfor -%}
        {%- do lines.append('/* afterimage intake ' ~ tojson(said) ~ ' */\n') -%}
    {%- endfor -%}
    {{ return(lines | join) }}
{%- endmacro -%}


{#- What a model's compiled SQL says. -#}
{%- macro _intakes(sql) -%}
    {%- set intakes = [] -%}
    {%- for said in modules.re.findall('/\\* afterimage intake ([{].*?[}]) \\*/', sql) -%}
        {%- do intakes.append(fromjson(said)) -%}
    {%- endfor -%}
    {{ return(intakes) }}
{%- endmacro -%}


{#- Remembers what was read, and at which snapshot of the table that was said. -#}
{%- macro _remember_read(target_relation, intakes, keeps_earlier) -%}
    {%- if intakes | rejectattr('is_remembered') | list | length == 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set read = afterimage._remembered().read if keeps_earlier else {} -%}
    {%- call statement('remember') -%}
        alter table {{ target_relation }} set tblproperties (
            'afterimage.read' = '{{ afterimage._as_property(tojson(dict(read, **afterimage._read_by(intakes)))) }}',
            'afterimage.snapshot' = '{{ afterimage._snapshot(target_relation) or '' }}'
        )
    {%- endcall -%}
{%- endmacro -%}


{#- Raw table -> its state. -#}
{%- macro _read_by(intakes) -%}
    {%- set read = {} -%}
    {%- for intake in intakes -%}
        {%- do read.update({intake.name: intake.state}) -%}
    {%- endfor -%}
    {{ return(read) }}
{%- endmacro -%}


{#- Whether the model remembers what it has read: only with a format that a run can add to. -#}
{%- macro _keeps_mark() -%}
    {{ return(
        this is not none and model.config.materialized == 'change_stream'
        and model.config.get('file_format') in afterimage._mergeable_formats()
    ) }}
{%- endmacro -%}


{%- macro _mergeable_formats() -%}
    {{ return(['iceberg', 'delta', 'hudi']) }}
{%- endmacro -%}


{#- Drops temporary views. -#}
{%- macro _drop_views(views) -%}
    {%- for view in views -%}
        {%- do run_query('drop view if exists ' ~ view) -%}
    {%- endfor -%}
{%- endmacro -%}
