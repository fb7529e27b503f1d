{#- The last step of every source macro: the columns of the change contract in order, from the CTE `changes`. An
    incremental run returns only rows that are new or have gained something (a before-image, a copy). `ingested_at` must
    stay truthful, so a change that has gained copies alone keeps it. `further_columns` follow those of the contract.
    `intake` says what the run reads, `known` (see _known_rules) what to compare it with; `column_types` are those of the
    data columns, by name. `afterimage_known_seq`, which is not written, tells a change_stream which changes are known. -#}
{%- macro _staged(intake, known, columns, column_types, unique_key, further_columns=[]) -%}
    {%- set erasures = afterimage._erasures_of(model.name, unique_key, column_types) if execute else none -%}
    {%- do afterimage._check_list_is_there(erasures) -%}
    {%- do afterimage._check_listed_models(unique_key) -%}
    {%- do afterimage._check_hashed_types(erasures, unique_key) -%}
    {%- for column, type in (erasures.token_types if erasures else {}).items() | list -%}
        {#- A token is drawn for the type that the table has: it may not fit the declared one, and be NULL there. -#}
        {%- do erasures.token_types.update({column: afterimage._stored_type(type)}) -%}
    {%- endfor -%}
    {%- set contract = afterimage._contract_columns() -%}
    {%- set marks_known = afterimage._tracks_reads() and afterimage._is_incremental() -%}
    {%- set compared = contract | reject('equalto', 'change_id') | list + further_columns -%}
    {%- set value, named = {}, known.kept | list -%}
    {%- set may_keep_tokens = erasures and afterimage._is_incremental() -%}
    {%- for column in contract + further_columns -%}
        {%- do value.update({column: known.kept.get(column, 'changes.' ~ afterimage._quote(column))}) -%}
        {%- if may_keep_tokens and column not in ['change_id', 'source_rows'] -%}
            {%- do value.update({column: 'if(changes.keeps_token and known.change_id is not null, known.'
                ~ afterimage._quote(column) ~ ', ' ~ value[column] ~ ')'}) -%}
            {%- do named.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if afterimage._is_partial(intake) and afterimage._is_incremental() -%}
        {#- No later run would count again the copies that it leaves out. -#}
        {%- do value.update({'source_rows': 'greatest(known.source_rows, ' ~ value.source_rows ~ ')'}) -%}
        {%- do named.append('source_rows') -%}
    {%- endif -%}
    {%- set types = afterimage._column_types(
        afterimage._relation_columns(this) if afterimage._is_incremental() else []
    ) -%}
    {%- if intake.new_shape -%}
        {#- The table gets them before this statement runs. -#}
        {%- set row_type = afterimage._row_type(intake.new_shape.columns, intake.new_shape.types) -%}
        {%- do types.update({'before': row_type, 'after': row_type}) -%}
    {%- endif -%}
    {#- Of each column, whether the stored row has the same. -#}
    {%- set same = {} -%}
    {%- for column in (compared if afterimage._is_incremental() else []) -%}
        {%- set pair = [value[column], 'known.' ~ afterimage._quote(column)] -%}
        {%- if intake.is_united and column in ['before', 'after'] -%}
            {#- The table has the widest types of all raw tables, and Spark compares no rows of two types. -#}
            {%- set own_type = ' as ' ~ afterimage._row_type(columns, column_types) ~ ')' -%}
            {%- set pair = ['try_cast(' ~ pair[0] ~ own_type, 'try_cast(' ~ pair[1] ~ own_type] -%}
        {%- endif -%}
        {%- do same.update({column: afterimage._comparable(pair[0], types[column])
            ~ ' <=> ' ~ afterimage._comparable(pair[1], types[column])}) -%}
    {%- endfor -%}
{%- if erasures %},

{{ afterimage._without_erased(
    erasures, columns, unique_key, further_columns, intake.erased_columns, known.carried,
    this if afterimage._is_incremental() else none
) }}
{% endif %}
{%- set read = 'kept_changes' if erasures else 'changes' -%}
{%- set replaced = [known.replaced] if known.replaced else [] -%}
{%- if intake.added and known.has_names_of_content -%}
    {%- do replaced.append(afterimage._renamed(read, columns, intake.added, column_types)) -%}
{%- endif -%}
{%- if replaced and erasures -%}
    {%- set replaced = ["select explode(array(id, concat('erased-', md5(id)))) from (" ~ replaced | join(' union all ')
        ~ ') as replaced_changes(id)'] -%}
{%- endif %}
select
    {%- for column in contract %}
    {{ value[column] ~ (' as ' ~ column if column in named) }},
    {%- endfor %}
    {%- if afterimage._is_incremental() %}
    -- A copy of a known change is no news.
    if(
        known.change_id is not null
        {%- for column in compared if column != 'source_rows' %}
        and {{ same[column] }}
        {%- endfor %},
        known.ingested_at,
        {{ afterimage._ingested_at() | indent(8) }}
    ) as ingested_at
    {%- else %}
    {{ afterimage._ingested_at() }} as ingested_at
    {%- endif %}
    {%- for column in further_columns %},
    {{ value[column] ~ (' as ' ~ afterimage._quote(column) if column in named) }}
    {%- endfor %}
    {%- if marks_known %},
    known.change_seq as afterimage_known_seq
    {%- endif %}

from {{ read }} as changes
{%- if afterimage._is_incremental() %}
left outer join {{ this }} as known
    on
        changes.change_id = known.change_id
        {%- if known.within %}
        and ({{ known.within }})
        {%- endif %}
where
    (
        known.change_id is null
        or not (
            {{ same.values() | join('\n            and ') }}
        )
    )
    {%- if known.unchanged_if %}
    and not coalesce({{ known.unchanged_if }}, false)
    {%- endif %}
{%- endif %}
{%- if replaced and afterimage._is_incremental() %}
{%- set replaced_values = {
    'reject_reason': afterimage._replaced_reason() ~ ' as reject_reason', 'source_rows': '0 as source_rows'
} %}

union all
select
    {%- for column in contract %}
    {{ replaced_values[column] or 'known.' ~ afterimage._quote(column) }},
    {%- endfor %}
    {{ afterimage._ingested_at() | indent(4) }} as ingested_at
    {%- for column in further_columns %},
    known.{{ afterimage._quote(column) }}
    {%- endfor %}
    {%- if marks_known %},
    known.change_seq as afterimage_known_seq
    {%- endif %}

from {{ this }} as known
where known.reject_reason is not null and known.change_id in ({{ replaced | join(' union all ') }})
{%- endif %}
{%- endmacro -%}


{#- Whether a run leaves rows out on purpose: with `--empty` or `--sample`. -#}
{%- macro _is_partial(intake) -%}
    {%- set relations = intake.sides | map(attribute='relation') | list -%}
    {{ return(
        relations | selectattr('limit', 'number') | list | length > 0
        or relations | selectattr('event_time_filter') | list | length > 0
    ) }}
{%- endmacro -%}


{#- A query for the change_ids of stored rows that the run reads under another name: what tells a malformed row from
    others is all that it holds, and now it holds values of `added` columns. `read` are the changes of the run. -#}
{%- macro _renamed(read, columns, added, column_types) -%}
select earlier.change_id
from {{ this }} as earlier
inner join {{ read }} as later
    on
        earlier.change_seq = later.change_seq
        and earlier.reject_reason = later.reject_reason
        and earlier.operation <=> later.operation
        and earlier.changed_at <=> later.changed_at
        and earlier.transaction_id <=> later.transaction_id
        {%- for image in ['before', 'after'] %}
        {%- for column in columns if column not in added %}
        {%- set name = '.`' ~ image ~ '`.' ~ afterimage._quote(column) %}
        and {{ afterimage._comparable('earlier' ~ name, column_types[column]) }}
        <=> {{ afterimage._comparable('later' ~ name, column_types[column]) }}
        {%- endfor %}
        {%- endfor %}
left anti join {{ read }} as same
    on earlier.change_id = same.change_id
where earlier.change_id rlike '^(rejected|unordered)-'
{%- endmacro -%}


{#- The columns of the change contract, in order, without `ingested_at`, which comes last. -#}
{%- macro _contract_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'before', 'after', 'changed_columns', 'absent_columns', 'changed_at',
        'transaction_id', 'reject_reason', 'warnings', 'source_rows', 'changed_by'
    ]) }}
{%- endmacro -%}


{#- The time of the run. If the clock was set back, `ingested_at` must not go back with it, even in a full refresh: the
    rows would look old, and no history would take them in. Each model has a fraction of a second of its own: a history
    over two models knows by this time which of their runs it has taken in, and one may commit after it has looked. The
    session's zone may not be dbt's, which is UTC. -#}
{%- macro _ingested_at() -%}
{%- set own = modules.datetime.timedelta(microseconds=local_md5(model.unique_id)[:8] | int(base=16) % 1000000) -%}
{%- set now = "timestamp '" ~ (run_started_at + own).strftime("%Y-%m-%d %H:%M:%S.%f") ~ "Z'" -%}
{%- if not afterimage._is_incremental() -%}
    {%- set last = afterimage._last_ingested() -%}
    {{ return(now if last is none else 'greatest(' ~ now ~ ', timestamp_micros(' ~ (last + 1) ~ '))') }}
{%- endif -%}
greatest(
    {{ now }},
    (select max(earlier.ingested_at) from {{ this }} as earlier) + interval 1 microsecond
)
{%- endmacro -%}


{#- The newest `ingested_at` of the table that a full refresh replaces, in microseconds. -#}
{%- macro _last_ingested() -%}
    {%- if not afterimage._tracks_reads() or flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set earlier = afterimage._load_relation(this) -%}
    {%- if not earlier or 'ingested_at' not in afterimage._relation_columns(earlier) | map(attribute='name') -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(afterimage._value('select unix_micros(max(ingested_at)) from ' ~ earlier)) }}
{%- endmacro -%}


{#- The reject reason of a stored row that a run reads as another change. -#}
{%- macro _replaced_reason() -%}
'replaced: it is read as another change'
{%- endmacro -%}


{#- The query of a run that knows beforehand that nothing is new. The full statement would return the same, but
    Spark would spend a second planning it. It has the columns of _staged, for a model that unites several sources. -#}
{%- macro _no_new_changes(further_columns=[]) -%}
select {{ afterimage._quoted_list(afterimage._contract_columns() + ['ingested_at'] + further_columns) }}
    {{- ', change_seq as afterimage_known_seq' if afterimage._tracks_reads() }}
from {{ this }}
where false
{%- endmacro -%}
