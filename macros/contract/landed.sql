{#- What has landed in one raw table since the last run, as _landed lists it. Iceberg and Delta tables find landed rows
    by version, files by modification time. Any other relation is read in full, unless `afterimage_lookback_hours`
    says how far to look back by the source's clock, and an earlier run has read it. -#}
{%- macro _landed_since(side, remembered) -%}
    {%- set relation = side.relation -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- if not (is_incremental or afterimage._tracks_reads()) or flags.WHICH not in ['run', 'build'] -%}
        {#- A query that is only shown, or a table that every run rebuilds. -#}
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- elif not side.is_tracked -%}
        {{ return(afterimage._landed(relation, 'unknown')) }}
    {%- elif is_incremental and not afterimage._tracks_reads() and relation.event_time_filter -%}
        {#- The next run begins at the time of this one. -#}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ": dbt's `incremental` takes no sample, because later runs would never read what the sample of "
            ~ relation.replace(event_time_filter=none) ~ ' leaves out. Run it without `--sample`, or, for a'
            ~ ' sample alone, with `--full-refresh`; or make it a `change_stream`. Got: a filter by '
            ~ relation.event_time_filter.field_name
        ) -%}
    {%- elif remembered.tables and relation | string not in remembered.tables -%}
        {#- Another call of the model may have read it: for its own rows. -#}
        {%- set remembered = dict(remembered, read={}) -%}
    {%- endif -%}
    {%- set format = afterimage._landing_format(relation) -%}
    {%- if format is not none -%}
        {%- set read = afterimage._read_before(relation | string, remembered) if is_incremental else {} -%}
        {{ return(afterimage._of_format(format, 'landed')(side, read, is_incremental)) }}
    {%- elif is_incremental and side.time -%}
        {{ return(afterimage._landed_by_time(relation, side.time, remembered)) }}
    {%- endif -%}
    {{ return(afterimage._landed(relation, 'all')) }}
{%- endmacro -%}


{#- What one query over the landed rows says: `count`, `extents` ([beginning, first place, last place] for each
    beginning of places) and `has_unplaced`; `group_hashes`, if the rows are few, and are not opened by a table that may
    get news before the next statement; and `digest_now`, the side's digest. (A run that reads everything does not ask,
    so the next one with news reads everything once more if rows depend on the digest.) -#}
{%- macro _landed_summary(side) -%}
    {%- set few = 1000 -%}
    {%- set group_hash = 'xxhash64(' ~ side.group ~ ')' if side.group else 'cast(null as bigint)' -%}
    {%- set query -%}
        select
            if(has_place, left(place, {{ side.reach or 0 }}), null) as beginning,
            count(*) as row_count,
            min(place) as first_place,
            max(place) as last_place,
            to_json(collect_set(group_hash)) as group_hashes

        from (
            select
                {{ side.place or "''" }} as place,
                {{ side.has_place }} as has_place,
                -- The last 33 bits count the rows of a partition: of many rows, few are collected.
                if(monotonically_increasing_id() & 8589934591 < {{ few }}, {{ group_hash }}, null) as group_hash

            from {{ side.landed }} as landed
            where {{ side.where }}
        ) as placed
        group by 1
    {%- endset -%}
    {%- set extents = [] -%}
    {%- set hashes = [] -%}
    {%- set seen = namespace(count=0, has_unplaced=false) -%}
    {%- for row in run_query(query).rows -%}
        {%- set seen.count = seen.count + row['row_count'] | int -%}
        {%- do hashes.extend(fromjson(row['group_hashes'])) -%}
        {%- if row['beginning'] is not none -%}
            {%- do extents.append([row['beginning'], row['first_place'], row['last_place']]) -%}
        {%- elif side.place is not none -%}
            {%- set seen.has_unplaced = true -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if seen.count == 0 -%}
        {%- do afterimage._drop_views(side.views) -%}
        {{ return({'kind': 'nothing', 'views': [], 'count': 0}) }}
    {%- endif -%}
    {{ return({
        'count': seen.count, 'extents': extents, 'has_unplaced': seen.has_unplaced,
        'group_hashes': hashes | unique | sort if seen.count <= few and not side.opened else none,
        'digest_now': afterimage._value(side.digest) if side.digest else none,
    }) }}
{%- endmacro -%}


{#- The rows from `afterimage_lookback_hours` before the newest change in the model's table; all rows if the project
    does not set it, or if nothing says that an earlier run has read them. Also all rows of an ephemeral model, which is a
    CTE within the model: no other query can ask what is new in it. -#}
{%- macro _landed_by_time(relation, time, remembered) -%}
    {%- set hours = afterimage._setting('afterimage_lookback_hours') -%}
    {%- if hours is none or '__dbt__cte__' in relation | string -%}
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- endif -%}
    {%- do afterimage._check_number('source macros', 'var afterimage_lookback_hours', hours) -%}
    {%- if afterimage._tracks_reads() and not afterimage._was_read(relation, remembered) -%}
        {{ return(afterimage._landed(relation, 'all', reason=remembered.reason)) }}
    {%- endif -%}
    {%- set query -%}
        select cast(max(changed_at) - interval {{ hours }} hours as string)
        from {{ this }}
        where reject_reason is null and changed_at <= timestamp '{{ afterimage._latest_time() }}'
    {%- endset -%}
    {%- set start = afterimage._value(query) -%}
    {%- if start is none -%}
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- endif -%}
    {{ return(afterimage._landed(
        relation, 'new', landed='(select * from ' ~ relation ~ ' where coalesce(' ~ time ~ " >= timestamp '" ~ start ~ "', true))"
    )) }}
{%- endmacro -%}


{#- Whether earlier runs have read a relation that has no state: they remember for which tables they asked. -#}
{%- macro _was_read(relation, remembered) -%}
    {%- set tables = [] -%}
    {%- for name, asks in remembered.read.items() if name.endswith(' asks') -%}
        {%- do tables.extend(fromjson(asks).tables) -%}
    {%- endfor -%}
    {{ return(relation | string in tables) }}
{%- endmacro -%}


{#- The latest time that may count as the newest change when a run decides what to read: a day after the run's
    start. Otherwise a change dated 2099 would hide all that arrives until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}


{#- The first characters of the newest change_seq that earlier runs took in, if any. Places after `at_most` do not
    count. Iceberg's metadata tells whether any change is rejected. If none is and the metadata holds whole
    change_seqs, it also gives the newest. -#}
{%- macro _newest_place(width, at_most=none) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set rejected = afterimage._value('select count(reject_reason) from ' ~ this) -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        {{ 'where reject_reason is null' if rejected > 0 }}
    {%- endset -%}
    {%- set newest = afterimage._value(query) or none -%}
    {%- if newest is none or at_most is none or newest <= at_most -%}
        {{ return(newest) }}
    {%- endif -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        where reject_reason is null and change_seq <= '{{ at_most }}'
    {%- endset -%}
    {{ return(afterimage._value(query) or none) }}
{%- endmacro -%}
