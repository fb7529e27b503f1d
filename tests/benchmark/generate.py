"""A Qlik change table of any size to measure with: seeded, consistent, skewed like real ones."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

HEADER_COLUMNS = 7
# The data columns beside the key, by type, and how a number becomes a value of each.
COLUMNS: dict[str, str] = {
    "name": "concat('name ', {n} % 1000000)",
    "email": "concat('user', {n} % 1000000, '@example.com')",
    "city": "split('Turin Essen Paris Cairo Osaka Quito', ' ')[cast({n} % 6 as int)]",
    "status": "split('new open paid shipped closed', ' ')[cast({n} % 5 as int)]",
    "credit_limit": "cast({n} % 1000000 / 100.0 as decimal(12, 2))",
    "balance": "cast({n} % 100000000 / 10000.0 as decimal(18, 4))",
    "score": "cast({n} % 1000 as int)",
    "ratio": "cast({n} % 10000 as double) / 7",
    "is_active": "{n} % 2 = 0",
    "born_on": "date_add(date '1950-01-01', cast({n} % 20000 as int))",
    "notes": "repeat(md5(cast({n} as string)), 2)",
}
KEY = "id"


def number(*parts: str) -> str:
    """Return SQL for a pseudo-random number of 0 or more that depends on `parts` alone."""
    return f"(xxhash64({', '.join(parts)}) & 9223372036854775807)"


def changes(
    spark: SparkSession, count: int, seed: int = 1, even: bool = False, hot: int = 0
) -> DataFrame:
    """Return `count` changes in the order of their sequence, and the before-images of all updates.

    About 20 % are inserts, 70 % updates and 10 % deletes; 1 % of the updates change the key and 5 %
    lack `notes`, as a source does that does not log long texts which did not change.

    Args:
        spark: The session to make them in.
        count: How many changes; before-images come on top.
        seed: Another seed gives other values.
        even: Whether all rows of the source change about equally often. Otherwise few change often.
        hot: How many of the changes are those of one key; the others are spread evenly then.

    Returns:
        The landed rows, not ordered.
    """
    skew = 1 if even or hot else 2
    rows = max(1, count // 10)
    w = "partition by row_no order by place"
    spark.range(1, count + 1, numPartitions=max(4, count // 500_000)).createOrReplaceTempView("_n")
    flags = ",\n".join(
        f"is_insert or (is_update and {number('row_no', 'step', str(seed), repr(name))} % 4 = 0)"
        f" as changes_{name}"
        for name in COLUMNS
    )
    turns = ",\n".join(
        f"sum(if(changes_{name}, 1, 0)) over ({w}) as turn_{name}" for name in COLUMNS
    )
    values = ",\n".join(
        "{value} as {name}".format(
            value=how.format(n=number("row_no", str(seed), repr(name), f"turn_{name}")), name=name
        )
        for name, how in COLUMNS.items()
    )
    names = list(COLUMNS)
    before = ",\n".join(f"lag({name}) over ({w}) as before_{name}" for name in [KEY, *names])
    mask = " | ".join(
        f"if(changes_{name}, {1 << (HEADER_COLUMNS + i)}L, 0L)" for i, name in enumerate(names, 1)
    )
    after_columns = ", ".join([KEY, *(n for n in names if n != "notes")])
    before_columns = ", ".join(
        f"before_{name} as {name}" for name in [KEY, *names] if name != "notes"
    )
    return spark.sql(
        f"""
        with events as (
            select
                id as place,
                if(
                    id * {hot} % {count} < {hot},
                    {rows},
                    cast(floor(pow({number("id", str(seed))} % 1000003 / 1000003.0D, {skew})
                        * {rows}) as bigint)
                ) as row_no
            from _n
        ),
        steps as (
            select
                *,
                row_number() over ({w}) as step,
                {number("place", str(seed), "'d'")} % 1000 < 125 as may_end
            from events
        ),
        ends as (
            select
                *,
                may_end and step > 1 and not lag(may_end, 1, false) over ({w}) as is_delete
            from steps
        ),
        kinds as (
            select
                *,
                step = 1 or lag(is_delete, 1, false) over ({w}) as is_insert
            from ends
        ),
        updates as (
            select
                *,
                not is_delete and not is_insert as is_update,
                not is_delete and not is_insert and row_no < {rows}
                    and {number("place", str(seed), "'k'")} % 100 = 0 as changes_key
            from kinds
        ),
        flags as (select *, {flags} from updates),
        turns as (
            select *, row_no * 100000 + sum(if(changes_key, 1, 0)) over ({w}) as id, {turns}
            from flags
        ),
        rows as (select *, {values} from turns),
        pairs as (select *, {before} from rows),
        dressed as (
            select
                *,
                timestamp_millis(1704067200000 + place * 50) as happened_at,
                is_update and not changes_notes and not changes_key
                    and {number("place", str(seed), "'s'")} % 20 = 0 as is_sparse,
                if(changes_key, {1 << HEADER_COLUMNS}L, 0L) | if(is_delete, {1 << HEADER_COLUMNS}L,
                    if(is_insert, -1L, {mask})) as bits
            from pairs
        ),
        landed as (
            select
                *,
                concat(date_format(happened_at, 'yyyyMMddHHmmssSS'), lpad(place, 19, '0')) as seq,
                lpad(hex(place div 5), 32, '0') as transaction_id,
                lpad(hex(bits & {(1 << (HEADER_COLUMNS + len(names) + 1)) - 1}L), 6, '0') as numeral
            from dressed
        )
        select
            row.seq as header__change_seq,
            row.oper as header__change_oper,
            row.mask as header__change_mask,
            concat('pos:', place) as header__stream_position,
            row.word as header__operation,
            transaction_id as header__transaction_id,
            happened_at as header__timestamp,
            row.image.*
        from (
            select
                place,
                transaction_id,
                happened_at,
                explode(array_compact(array(
                    if(is_update, named_struct(
                        'seq', seq, 'oper', 'B', 'word', 'BEFOREIMAGE', 'mask', X'',
                        'image', (select_before)), null),
                    named_struct(
                        'seq', seq,
                        'oper', case when is_delete then 'D' when is_insert then 'I' else 'U' end,
                        'word', case when is_delete then 'DELETE' when is_insert then 'INSERT'
                            else 'UPDATE' end,
                        'mask', unhex(concat(
                            substr(numeral, 5, 2), substr(numeral, 3, 2), substr(numeral, 1, 2))),
                        'image', (select_after))
                ))) as row
            from landed
        )
        """.replace(
            "(select_before)",
            f"struct({before_columns}, if(is_sparse, null, before_notes) as notes)",
        ).replace("(select_after)", f"struct({after_columns}, if(is_sparse, null, notes) as notes)")
    )
