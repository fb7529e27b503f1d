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
    {%- set mask = 'change_mask' if layout.mask_is_binary else afterimage._valid_text('change_mask') -%}
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
                decode_change_mask(
                    first(if(is_update, {{ mask }}, null), true), 0
                    {%- if mask_encoding is not none %}, '{{ mask_encoding }}'{% endif %}
                ) as ordinals,
                first(if(is_update, image, null), true) as after_image,
                first(if(is_update, null, image), true) as before_image

            from first_rows
            group by landed_seq
            having count_if(is_update) = 1 and count_if(not is_update) = 1

        ),

        differences as (

            select
                ordinals,
                array_compact(array(
                    {%- for column in layout.ordinals %}
                    if({{ afterimage._qlik_differs(column, layout.types, after='after_image') }}, {{ loop.index }}, null)
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )) as differing

            from pairs
            where ordinals is not null

        )

        select
            header_columns,
            count(*) as updates,
            count_if(size(array_except(transform(differing, k -> k + header_columns), ordinals)) = 0) as fitting

        from differences
        lateral view explode(sequence(0, {{ [20, counted + 5] | max }})) as header_columns
        where size(differing) > 0
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
