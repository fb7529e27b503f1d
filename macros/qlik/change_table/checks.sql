{#- Warns if the masks of most updates in a run miss columns that differ from their before-images, and says which
    number of header columns would fit. A landing that lost a header column shifts all bits. The check reads the
    first rows that Spark finds, so it skips updates whose before-image is not among them. It skips batches with
    fewer rows than that: they would prove little and take most of the run's time. A table that has landed again is
    read as a whole. -#}
{%- macro _qlik_check_masks(relation, layout, mask_encoding, side) -%}
    {%- set sample = 1000 -%}
    {%- set rows = side.landed or side.rows -%}
    {%- set is_unit_test = relation.identifier.startswith('__dbt__cte__') -%}
    {%- set is_small = side.kind == 'new' and side['count'] < sample -%}
    {%- if not layout.has_mask or flags.WHICH not in ['run', 'build'] or is_unit_test or is_small -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set header = layout.header -%}
    {%- set is_update = "(" ~ header.change_oper ~ " <=> 'U' or " ~ header.operation ~ " <=> 'UPDATE')" -%}
    {%- set is_before = "(" ~ header.change_oper ~ " <=> 'B' or " ~ header.operation ~ " <=> 'BEFOREIMAGE')" -%}
    {%- set counted = layout.header_columns -%}
    {%- set query -%}
        with

        first_rows as (

            select
                {{ header.change_seq }} as landed_seq,
                {{ is_update }} as is_update,
                {{ header.change_mask }} as change_mask,
                {{ afterimage._struct(layout.ordinals) }} as image

            from {{ rows }} as landed
            where {{ is_update }} or {{ is_before }}
            limit {{ sample }}

        ),

        pairs as (

            select
                first(if(is_update, change_mask, null), true) as update_mask,
                first(if(is_update, image, null), true) as after_image,
                first(if(is_update, null, image), true) as before_image

            from first_rows
            group by landed_seq
            having count_if(is_update) = 1 and count_if(not is_update) = 1

        ),

        differences as (

            select
                {{ afterimage._mask_digits(
                    'update_mask', counted + layout.ordinals | length, mask_encoding, not layout.mask_is_binary
                ) | indent(16) }} as mask_digits,
                {{ afterimage._mask_ordinals('mask_digits') }} as ordinals,
                array_compact(array(
                    {%- for column in layout.ordinals %}
                    if({{ afterimage._qlik_differs(column, layout.types, after='after_image') }}, {{ loop.index }}, null)
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )) as differing

            from pairs

        )

        select
            header_columns,
            count(*) as updates,
            count_if(size(array_except(transform(differing, k -> k + header_columns), ordinals)) = 0) as fitting

        from differences
        lateral view explode(sequence(0, {{ [20, counted + 5] | max }})) as header_columns
        where size(differing) > 0 and ordinals is not null
        group by header_columns
        -- If two numbers fit alike, the better one flags fewer columns that did not change.
        order by
            fitting desc,
            sum(size(filter(ordinals, k -> k > header_columns))) asc,
            abs(header_columns - {{ counted }}) asc
    {%- endset -%}
    {%- set candidates = run_query(query).rows -%}
    {%- for row in candidates if row['header_columns'] == counted and row['fitting'] * 2 < row['updates'] -%}
        {%- set best = candidates[0] -%}
        {%- do exceptions.warn(
            "qlik_change_table: the change masks contradict the before-images in " ~ (row['updates'] - row['fitting'])
            ~ " of " ~ row['updates'] ~ " updates of " ~ relation ~ ": they do not flag what changed. " ~ (
                "With `header_columns`=" ~ best['header_columns'] ~ " (now " ~ counted ~ "), " ~ best['fitting']
                ~ " of " ~ best['updates'] ~ " fit: set it if the landed table has lost or gained a header column, and run"
                ~ " with --full-refresh."
                if best['fitting'] * 2 > best['updates']
                else "No value of `header_columns` fits (now " ~ counted ~ "): check `mask_encoding` and the order of"
                ~ " `columns`, and run with --full-refresh."
            )
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Warns if rows take each other's keys (`id = id + 1`) in a table without transaction ids: a history loses such a row,
    because only its transaction tells which row left the key. The before-images show it: one update gives a row a key,
    and a later one of the same time in change_seq takes another row from there. Rows that are equal but for their keys
    do not show it. -#}
{%- macro _qlik_check_key_trades(relation, layout, side) -%}
    {%- set is_unit_test = relation.identifier.startswith('__dbt__cte__') -%}
    {%- set others = layout.columns | reject('in', layout.unique_key) | list -%}
    {%- if layout.has_transactions or not others or flags.WHICH not in ['run', 'build'] or is_unit_test -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set header = layout.header -%}
    {%- set is_update = "(" ~ header.change_oper ~ " <=> 'U' or " ~ header.operation ~ " <=> 'UPDATE')" -%}
    {%- set is_before = "(" ~ header.change_oper ~ " <=> 'B' or " ~ header.operation ~ " <=> 'BEFOREIMAGE')" -%}
    {%- set query -%}
        with

        images as (

            select
                {{ header.change_seq }} as landed_seq,
                {{ is_update }} as is_update,
                {{ afterimage._struct(layout.columns) }} as image

            from {{ side.landed or side.rows }} as landed
            where {{ is_update }} or {{ is_before }}

        ),

        pairs as (

            select
                landed_seq,
                left(landed_seq, 16) as committed_at,
                first(if(is_update, image, null), true) as after_image,
                first(if(is_update, null, image), true) as before_image

            from images
            group by landed_seq
            having count_if(is_update) = 1 and count_if(not is_update) = 1

        ),

        moves as (

            select *
            from pairs
            where not ({{ afterimage._same_columns('after_image', 'before_image', layout.unique_key) }})

        ),

        met as (

            select
                came.after_image,
                gone.before_image,
                gone.landed_seq

            from moves as came
            inner join moves as gone
                on
                    came.committed_at = gone.committed_at
                    and came.landed_seq < gone.landed_seq
                    and {{ afterimage._same_columns('came.after_image', 'gone.before_image', layout.unique_key) }}

        )

        select
            count(distinct landed_seq) as updates,
            min(landed_seq) as first_seq

        from met
        where
            {%- for column in others %}
            ({{ afterimage._qlik_differs(column, layout.types, after='after_image') }}){{ ' or' if not loop.last }}
            {%- endfor %}
    {%- endset -%}
    {%- set found = run_query(query).rows[0] -%}
    {%- if found['updates'] > 0 -%}
        {%- do exceptions.warn(
            "qlik_change_table: rows of " ~ relation ~ " take each other's keys: " ~ found['updates'] ~ " updates (the"
            ~ " first with change_seq " ~ found['first_seq'] ~ ") take a row from a key that another row has just been"
            ~ " given. The change table has no transaction_id, so histories lose the row that came. Let the task write"
            ~ " transaction_id, and run with --full-refresh."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
