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
