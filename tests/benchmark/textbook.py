"""What people write by hand for a Qlik change table, in Spark SQL and in DuckDB's, and the limit.

They give the same versions as `scd2` for what `generate.py` makes; they know nothing of what it does
not make (truncates, ties, late load rows, copies of rows, rows that cannot be read, a key change that
lacks columns).
"""

from __future__ import annotations

from typing import Any

from generate import COLUMNS, HEADER_COLUMNS, KEY

ALL = [KEY, *COLUMNS]


def mask_ordinals(mask: str) -> str:
    """Return built-in SQL for the ordinals that a mask flags; its bytes come low bits first."""
    parts = ", ".join(f"hex(substring({mask}, {place}, 1))" for place in (3, 2, 1))
    return (
        f"filter(sequence(1, {len(ALL)}), k -> (cast(conv(concat({parts}), 16, 10) as bigint)"
        f" & shiftleft(1L, k + {HEADER_COLUMNS} - 1)) <> 0)"
    )


_NAMES = ", ".join(f"'{name}'" for name in ALL)
MASK_SQL = (
    f"transform({mask_ordinals('row.header__change_mask')}, k -> element_at(array({_NAMES}), k))"
)
MASK_UDF = "plain_mask(row.header__change_mask)"


def plain_mask(mask: bytes | None) -> list[str] | None:
    """Decode a mask one row at a time, as most projects do."""
    if mask is None:
        return None
    return [
        name
        for place, name in enumerate(ALL, HEADER_COLUMNS)
        if place // 8 < len(mask) and mask[place // 8] >> place % 8 & 1
    ]


def register(spark: Any) -> None:
    """Register the plain UDF."""
    spark.udf.register("plain_mask", plain_mask, "array<string>")


def _struct(prefix: str) -> str:
    return "named_struct(" + ", ".join(f"'{name}', {prefix}{name}" for name in ALL) + ")"


def staging(raw: str, mask: str) -> str:
    """Return the vendor's recipe: the changes, joined to the before-images on change_seq."""
    return f"""
        with decoded as (
            select
                row.*,
                {mask} as changed_columns
            from {raw} as row
            where header__change_oper <> 'B'
        )
        select
            concat(row.header__change_seq, '-', row.header__change_oper) as change_id,
            row.header__change_seq as change_seq,
            case row.header__change_oper when 'I' then 'insert' when 'U' then 'update' else 'delete' end
                as operation,
            case
                when row.header__change_oper = 'U' then if(before.header__change_seq is null, null, {_struct("before.")})
                when row.header__change_oper = 'D' then {_struct("row.")}
            end as `before`,
            if(row.header__change_oper = 'D', null, {_struct("row.")}) as `after`,
            row.changed_columns,
            row.header__change_oper = 'U' and row.notes is null
                and not array_contains(row.changed_columns, 'notes') as lacks_notes,
            row.header__timestamp as changed_at,
            row.header__transaction_id as transaction_id,
            current_timestamp() as ingested_at
        from decoded as row
        left join {raw} as before
            on row.header__change_seq = before.header__change_seq
            and before.header__change_oper = 'B' and row.header__change_oper = 'U'
    """


def history(staged: str) -> str:
    """Return versions by `lead()` over a window, key changes split in two, no-ops left out."""
    same = " and ".join(f"{name} <=> prior.{name}" for name in ALL)
    values = ", ".join(f"`after`.{name}" for name in ALL if name != "notes")
    return f"""
        with events as (
            select
                if(operation = 'delete', `before`.{KEY}, `after`.{KEY}) as key,
                change_seq, 1 as place, operation, operation <> 'delete' as is_row,
                {values}, `after`.notes as landed_notes, lacks_notes, changed_at, transaction_id
            from {staged}
            union all
            select
                `before`.{KEY}, change_seq, 0, 'key_change', false,
                {", ".join("null" for _ in ALL)}, false, changed_at, transaction_id
            from {staged}
            where operation = 'update' and `before`.{KEY} <> `after`.{KEY}
        ),
        filled as (
            select
                *,
                if(is_row, last(if(is_row and not lacks_notes, struct(landed_notes as notes), null), true) over (
                    partition by key order by change_seq, place
                ).notes, null) as notes
            from events
        ),
        compared as (
            select
                *,
                lag(struct(is_row, {", ".join(ALL)})) over (
                    partition by key order by change_seq, place) as prior
            from filled
        ),
        kept as (
            select * from compared
            where (is_row and not coalesce(prior.is_row and {same}, false))
                or (not is_row and coalesce(prior.is_row, false))
        ),
        versions as (
            select
                *,
                lead(changed_at) over w as valid_to,
                lead(change_seq) over w as valid_to_seq,
                lead(operation) over w as closed_by,
                row_number() over w as version
            from kept
            window w as (partition by key order by change_seq, place)
        )
        select
            {", ".join(ALL)}, changed_at as valid_from, valid_to, change_seq as valid_from_seq,
            valid_to_seq, valid_to_seq is null as is_current, version, operation, closed_by,
            transaction_id, md5(concat(key, '-', change_seq)) as history_id
        from versions
        where is_row
    """


def new_snapshot(present: str) -> str:
    """Return the first snapshot that dbt takes of the present rows."""
    return f"""
        select
            *, md5(cast({KEY} as string)) as dbt_scd_id, timestamp '2026-01-01' as dbt_updated_at,
            timestamp '2026-01-01' as dbt_valid_from, cast(null as timestamp) as dbt_valid_to
        from ({present})
    """


def snapshot_merge(snapshot: str, present: str) -> str:
    """Return what `dbt snapshot` runs (strategy check, deleted rows closed), as one statement."""
    changed = " or ".join(f"not (now.{name} <=> before.{name})" for name in COLUMNS)
    names = ", ".join(f"now.{name}" for name in ALL)
    columns = [*ALL, "dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to"]
    return f"""
        merge into {snapshot} as target
        using (
            with before as (select * from {snapshot} where dbt_valid_to is null),
            stamped as (
                select *, md5(concat({KEY}, '|', current_timestamp())) as new_scd_id from {present}
            )
            select
                'insert' as change, {names}, now.new_scd_id as dbt_scd_id,
                current_timestamp() as dbt_updated_at, current_timestamp() as dbt_valid_from,
                cast(null as timestamp) as dbt_valid_to
            from stamped as now left join before on now.{KEY} = before.{KEY}
            where before.{KEY} is null or {changed}
            union all
            select
                'update', {names}, before.dbt_scd_id, current_timestamp(), before.dbt_valid_from,
                current_timestamp()
            from stamped as now inner join before on now.{KEY} = before.{KEY}
            where {changed}
            union all
            select
                'delete', {", ".join(f"before.{name}" for name in ALL)}, before.dbt_scd_id,
                current_timestamp(), before.dbt_valid_from, current_timestamp()
            from before left anti join stamped as now on now.{KEY} = before.{KEY}
        ) as source
        on source.dbt_scd_id = target.dbt_scd_id
        when matched and target.dbt_valid_to is null and source.change in ('update', 'delete')
            then update set dbt_valid_to = source.dbt_valid_to
        when not matched and source.change = 'insert'
            then insert ({", ".join(columns)}) values ({", ".join(f"source.{n}" for n in columns)})
    """


def limit_staging(raw: str) -> str:
    """Return the least that staging can be: the rows by change_seq, each image as a struct."""
    image = _struct("")
    return f"""
        select
            concat(header__change_seq, '-', header__change_oper) as change_id,
            header__change_seq as change_seq,
            header__change_oper as operation,
            if(header__change_oper in ('B', 'D'), {image}, null) as `before`,
            if(header__change_oper in ('B', 'D'), null, {image}) as `after`,
            header__change_mask as changed_columns,
            header__timestamp as changed_at,
            header__transaction_id as transaction_id,
            current_timestamp() as ingested_at
        from (select /*+ repartition(header__change_seq) */ * from {raw}) as raw
    """


def limit_history(staged: str) -> str:
    """Return the least that a history can be: the images by key, in order."""
    return f"""
        select
            {", ".join(f"image.{name}" for name in ALL)}, changed_at, change_seq, operation,
            transaction_id, md5(concat(image.{KEY}, '-', change_seq)) as history_id
        from (
            select coalesce(`after`, `before`) as image, changed_at, change_seq, operation, transaction_id
            from {staged}
            distribute by image.{KEY} sort by image.{KEY}, change_seq
        ) as sorted
    """


def duck_staging(raw: str) -> str:
    """Return the same staging in DuckDB's SQL."""
    names = ", ".join(f"'{name}'" for name in ALL)
    bits = (
        "('0x' || hex(row.header__change_mask[3:3]) || hex(row.header__change_mask[2:2])"
        " || hex(row.header__change_mask[1:1]))::bigint"
    )
    pack = "struct_pack({})".format
    row = pack(", ".join(f"{name} := row.{name}" for name in ALL))
    before = pack(", ".join(f"{name} := before.{name}" for name in ALL))
    return f"""
        with decoded as (
            select
                row.*,
                list_filter([{names}], lambda name, k: ({bits} >> (k + {HEADER_COLUMNS} - 1)) & 1 = 1)
                    as changed_columns
            from {raw} as row
            where header__change_oper <> 'B'
        )
        select
            row.header__change_seq || '-' || row.header__change_oper as change_id,
            row.header__change_seq as change_seq,
            case row.header__change_oper when 'I' then 'insert' when 'U' then 'update' else 'delete' end
                as operation,
            case
                when row.header__change_oper = 'U' and before.header__change_seq is not null then {before}
                when row.header__change_oper = 'D' then {row}
            end as before,
            case when row.header__change_oper <> 'D' then {row} end as after,
            row.changed_columns,
            row.header__change_oper = 'U' and row.notes is null
                and not list_contains(row.changed_columns, 'notes') as lacks_notes,
            row.header__timestamp as changed_at,
            row.header__transaction_id as transaction_id,
            current_timestamp as ingested_at
        from decoded as row
        left join (select * from {raw} where header__change_oper = 'B') as before
            on row.header__change_seq = before.header__change_seq and row.header__change_oper = 'U'
    """


def duck_history(staged: str) -> str:
    """Return the same history in DuckDB's SQL."""
    same = " and ".join(f"{name} is not distinct from prior.{name}" for name in ALL)
    values = ", ".join(f"after.{name}" for name in ALL if name != "notes")
    prior = ", ".join(f"{name} := {name}" for name in ["is_row", *ALL])
    return f"""
        with events as (
            select
                case when operation = 'delete' then before.{KEY} else after.{KEY} end as key,
                change_seq, 1 as place, operation, operation <> 'delete' as is_row,
                {values}, after.notes as notes, lacks_notes, changed_at, transaction_id
            from {staged}
            union all
            select
                before.{KEY}, change_seq, 0, 'key_change', false,
                {", ".join("null" for _ in ALL)}, false, changed_at, transaction_id
            from {staged}
            where operation = 'update' and before.{KEY} <> after.{KEY}
        ),
        filled as (
            select
                * exclude (notes),
                case when is_row then last_value(
                    case when is_row and not lacks_notes then struct_pack(notes := notes) end ignore nulls
                ) over (
                    partition by key order by change_seq, place
                    rows between unbounded preceding and current row
                ).notes end as notes
            from events
        ),
        compared as (
            select *, lag(struct_pack({prior})) over (partition by key order by change_seq, place) as prior
            from filled
        ),
        kept as (
            select * exclude (prior) from compared
            where (is_row and not coalesce(prior.is_row and {same}, false))
                or (not is_row and coalesce(prior.is_row, false))
        ),
        versions as (
            select
                *,
                lead(changed_at) over w as valid_to,
                lead(change_seq) over w as valid_to_seq,
                lead(operation) over w as closed_by,
                row_number() over w as version
            from kept
            window w as (partition by key order by change_seq, place)
        )
        select
            {", ".join(ALL)}, changed_at as valid_from, valid_to, change_seq as valid_from_seq,
            valid_to_seq, valid_to_seq is null as is_current, version, operation, closed_by,
            transaction_id, md5(key || '-' || change_seq) as history_id
        from versions
        where is_row
    """
