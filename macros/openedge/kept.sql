{#- What is known of the changes that the table has, as _known_rules takes it. The two tables may be pruned one after
    the other, and of one table some rows of a change: what was taken in stays. `added` are the columns that are new in
    this run. -#}
{%- macro _openedge_known(layout, split_order, added) -%}
    {%- set unchanged_if -%}
known.reject_reason is null
        and (
            (
                coalesce(changes.`before`, changes.`after`) is null
                and coalesce(known.`before`, known.`after`) is not null
            )
            -- Only a part of a record has no key.
            or changes.reject_reason
            rlike '^(before-image without its update:|half of a split record:|NULL in the key )'
            or ({{ afterimage._openedge_has_lost_part(layout, split_order, added) }})
        )
    {%- endset -%}
    {{ return({
        'unchanged_if': unchanged_if,
        'kept': afterimage._openedge_kept(layout, added) if afterimage._is_incremental() else {},
        'carried': ['has_before_image', 'is_split', 'before_is_split'],
    }) }}
{%- endmacro -%}


{#- Whether a change has one part of a record that was joined from two, which looks like a whole record: all its values
    begin (or end) those of the known row. A row that was joined has more landed rows than images. What `added` columns
    have is not known. -#}
{%- macro _openedge_has_lost_part(layout, split_order, added) -%}
    {%- set columns = layout.columns | reject('in', added) | list -%}
    {%- set begins = 'startswith' if split_order == 'zero_first' else 'endswith' -%}
    {%- set lost = [] -%}
    {%- for image, is_joined in {
        '`before`': "if(changes.operation = 'update', changes.before_is_split, changes.is_split)",
        '`after`': 'changes.is_split',
    }.items() -%}
        {%- set parts = afterimage._comparable_columns(columns, layout.types, 'changes.' ~ image ~ '.') -%}
        {%- set wholes = afterimage._comparable_columns(columns, layout.types, 'known.' ~ image ~ '.') -%}
        {%- set conditions, same = ['not ' ~ is_joined, 'changes.' ~ image ~ ' is not null'], [] -%}
        {%- for column in columns -%}
            {%- set part, whole, type = parts[loop.index0], wholes[loop.index0], layout.types[column] -%}
            {%- set is_same = part ~ ' <=> ' ~ whole -%}
            {%- do same.append(is_same) -%}
            {%- if column in layout.unique_key -%}
                {%- do conditions.append(is_same) -%}
            {%- elif type == 'string' -%}
                {%- do conditions.append(
                    begins ~ '(coalesce(rtrim(' ~ whole ~ "), ''), coalesce(rtrim(" ~ part ~ "), ''))"
                ) -%}
            {%- else -%}
                {%- do conditions.append('(' ~ part ~ ' is null or '
                    ~ (begins ~ '(' ~ whole ~ ', ' ~ part ~ ')' if type == 'binary' else is_same) ~ ')') -%}
            {%- endif -%}
        {%- endfor -%}
        {%- do lost.append((conditions + ['not (' ~ same | join(' and ') ~ ')']) | join(' and ')) -%}
    {%- endfor -%}
changes.reject_reason is null
            and changes.operation = known.operation
            and known.source_rows > if(known.operation = 'update' and known.`before` is not null, 2, 1)
            {{- ' + if(known.tracking is not null, 1, 0)' if layout.tracking_relation is not none }}
            and (
                ({{ lost[0] }})
                or ({{ lost[1] }})
            )
{%- endmacro -%}


{#- The columns that keep something of the row that the table has. Without its row before, an update keeps that; without
    its tracking row, a change keeps what that said. The other part of its record may land even so, or the change
    itself. -#}
{%- macro _openedge_kept(layout, added) -%}
    {%- set lost_before = afterimage._has_lost_before(layout.unique_key) -%}
    {#- What a new column was before is not known. The value after it makes no change of it. -#}
    {%- set before = afterimage._struct(layout.columns, 'known.`before`.', added, 'changes.`after`.{column}')
        if added else 'known.`before`' -%}
    {%- set warnings -%}
nullif(
            array_union(
                filter(
                    coalesce(changes.warnings, cast(array() as array<string>)),
                    warning -> not warning rlike
                    '^(the key changed, but without a before-image|no before-image|before-image left out|without a field map)'
                ),
                filter(
                    coalesce(known.warnings, cast(array() as array<string>)),
                    warning -> warning rlike '^(the field map leaves out what changed|the key changed and not all)'
                )
            ),
            cast(array() as array<string>)
        )
    {%- endset -%}
    {#- What was set to NULL the row before had told. -#}
    {%- set absent = afterimage._openedge_names_or_null('array_intersect(changes.absent_columns, array_union('
        ~ 'coalesce(known.absent_columns, cast(array() as array<string>)), '
        ~ afterimage._string_array(added) ~ '))') -%}
    {%- set kept = {} -%}
    {%- for column, value in {
        'before': before, 'absent_columns': absent, 'warnings': warnings,
        'source_rows': 'greatest(known.source_rows, changes.source_rows)',
    }.items() -%}
        {%- do kept.update({column: 'if(' ~ lost_before ~ ', ' ~ value ~ ', changes.`' ~ column ~ '`)'}) -%}
    {%- endfor -%}
    {%- do kept.update(afterimage._openedge_kept_tracking(layout, kept)) if layout.tracks -%}
    {#- By its operation, histories and audits know that a truncate was taken back: another `partition_resets` rejects
        it. -#}
    {%- do kept.update({'operation': "if(known.operation <=> 'truncate' and changes.reject_reason is not null,"
        ~ ' known.operation, changes.operation)'}) -%}
    {{ return(kept) }}
{%- endmacro -%}


{#- The same columns, and those of the tracking row, for a change that may have lost that. `kept` is what they have
    otherwise. -#}
{%- macro _openedge_kept_tracking(layout, kept) -%}
    {%- set lost_tracking -%}
(changes.reject_reason is null or known.reject_reason is not null)
        and changes.tracking is null and known.tracking is not null
    {%- endset -%}
    {#- Until its rows landed, it was only touched, or half there. -#}
    {%- set was_rejected = 'known.reject_reason is not null' -%}
    {%- set warnings -%}
case
            -- The tracking row's, and those of the rows without it.
            when {{ was_rejected }} then nullif(
                concat(
                    filter(
                        coalesce(changes.warnings, cast(array() as array<string>)),
                        warning -> warning <> 'no row in the tracking table'
                        and (not startswith(warning, '_Time-Stamp') or known.changed_at is null)
                        and (not startswith(warning, 'without a field map') or known.changed_columns is null)
                    ),
                    filter(
                        coalesce(known.warnings, cast(array() as array<string>)),
                        warning -> startswith(warning, 'the field map')
                    )
                ),
                cast(array() as array<string>)
            )
            when changes.`before` is null then known.warnings
            else nullif(
                filter(known.warnings, warning -> not warning rlike '^(no before-image|without a field map)'),
                cast(array() as array<string>)
            )
        end
    {%- endset -%}
    {%- set source_rows -%}
case
            when not ({{ lost_tracking }}) then {{ kept.source_rows }}
            {%- if layout.tracking_relation is not none %}
            -- Its change rows, and the tracking row that is gone.
            when {{ was_rejected }} and changes.source_rows > 0
                then greatest(known.source_rows, changes.source_rows + 1)
            {%- endif %}
            when not changes.has_before_image or changes.`before` is not null
                then greatest(known.source_rows, changes.source_rows)
            else changes.source_rows
        end
    {%- endset -%}
    {#- The field map that is gone still decides alone what was set to NULL. -#}
    {%- set is_update = "changes.operation = 'update' and changes.`after` is not null"
        ~ ' and changes.reject_reason is null' -%}
    {%- set empty = afterimage._each(
        layout.columns | reject('in', layout.unique_key),
        'if(changes.`after`.{column} is null and not array_contains(known.changed_columns, {name}), {name}, null)'
    ) or ['cast(null as string)'] -%}
    {%- set unflagged = afterimage._openedge_names_or_null('array_compact(array(' ~ empty | join(', ') ~ '))') -%}
    {%- set of_tracking = {
        'warnings': 'if(' ~ lost_tracking ~ ', ' ~ warnings ~ ', ' ~ kept.warnings ~ ')', 'source_rows': source_rows,
        'absent_columns': 'if(' ~ lost_tracking ~ ' and known.changed_columns is not null and ' ~ is_update ~ ', ' ~ unflagged
            ~ ', ' ~ kept.absent_columns ~ ')',
    } -%}
    {%- for column in ['tracking', 'changed_by', 'changed_columns'] -%}
        {%- do of_tracking.update({
            column: 'if(' ~ lost_tracking ~ ', known.' ~ column ~ ', changes.' ~ column ~ ')'
        }) -%}
    {%- endfor -%}
    {%- for column in ['changed_at', 'transaction_id'] -%}
        {%- set own, former = 'changes.' ~ column, 'known.' ~ column -%}
        {%- do of_tracking.update({column: 'if(' ~ lost_tracking ~ ', if(' ~ was_rejected ~ ', coalesce(' ~ own ~ ', '
            ~ former ~ '), ' ~ former ~ '), ' ~ own ~ ')'}) -%}
    {%- endfor -%}
    {{ return(of_tracking) }}
{%- endmacro -%}


{#- An array of names, NULL in place of an empty one. -#}
{%- macro _openedge_names_or_null(names) -%}
    {{ return('nullif(' ~ names ~ ', cast(array() as array<string>))') }}
{%- endmacro -%}
