"""Puts the files to be loaded into a folder of their own, in a form that Spark reads by path.

Parquet, ORC and JSON files are linked or copied. CSV and Avro files become Parquet: for CSV Spark
needs options, for Avro a jar that pip does not install. PyArrow also rejects a row that does not
fit, which Spark would fill up with NULL. Parquet with times that Spark does not read becomes
Parquet without them.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.files import File, shown
from dbt_afterimage.text import visible

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ",;\t|"
# A CSV row must fit into a block; the second number is the Avro rows held in memory.
_BLOCK_BYTES, _BATCH_ROWS = 64 << 20, 10_000
# Spark's name for a partition whose value is NULL.
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Otherwise Spark reads dates before 1582 as Julian, and rejects the file.
_CALENDAR = {"org.apache.spark.version": "3.5.8"}


@dataclass(frozen=True)
class Group:
    """Files with the same columns.

    Attributes:
        format: The format that Spark reads them as.
        folder: A folder with only these files.
        texts: Columns that are text because the landed files have no types: those of CSV, and
            partitions.
    """

    format: str
    folder: Path
    texts: tuple[str, ...] = ()


def stage(
    format_name: str, files: Sequence[File], folder: Path, *, links: bool = True
) -> list[Group]:
    """Make files readable by path.

    Args:
        format_name: Their format.
        files: The files.
        folder: An empty folder.
        links: Whether files that Spark reads itself may be links, which change with the files.

    Returns:
        The files by their columns, in the order of their names.

    Raises:
        AfterimageError: A file is not what its format says.
    """
    kinds: dict[Any, Group] = {}
    for file in files:
        columns = columns_of(format_name, file)
        is_rewritten = format_name == "parquet" and _has_unreadable_times(file)
        group = kinds.get((columns, is_rewritten))
        if group is None:
            texts = tuple(_partition_values(file))
            group = Group(format_name, folder / str(len(kinds)), texts)
            group.folder.mkdir()
        if format_name == "csv":
            group = _from_csv(file, columns, group)
        elif format_name == "avro":
            group = _from_avro(file, group)
        else:
            # Spark skips what is in a folder that is not a partition.
            name = "~".join([*file.dates, file.path.name])
            link = group.folder.joinpath(*file.partitions, name)
            link.parent.mkdir(parents=True, exist_ok=True)
            if is_rewritten:
                _rewrite(file, link)
            elif links:
                link.symlink_to(file.path)
            else:
                with _refusing(file, format_name):
                    shutil.copyfile(file.path, link)
        kinds[columns, is_rewritten] = group
    return list(kinds.values())


def columns_of(format_name: str, file: File) -> Any:
    """Return a value that is equal for files with the same columns.

    Args:
        format_name: The file's format.
        file: The file.

    Raises:
        AfterimageError: The file is not what its format says.
    """
    if format_name == "csv":
        return _header(file)
    if format_name == "json":
        # Spark itself reads all rows of all files for this.
        return None
    with _refusing(file, format_name):
        if format_name == "avro":
            with file.path.open("rb") as opened:
                return str(_avro(opened).writer_schema)
        if format_name == "orc":
            from pyarrow import orc

            return str(orc.ORCFile(file.path).schema.remove_metadata())
        from pyarrow import parquet

        return str(parquet.read_schema(file.path).remove_metadata())


def columns_without_a_type(group: Group) -> set[str]:
    """Return the columns of Parquet files that PyArrow wrote without a type, for want of a value.

    Spark 3.5 takes them for whole numbers.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if group.format != "parquet":
        return set()
    file = next(one for one in group.folder.rglob("*") if one.is_file())
    return {one.name for one in parquet.read_schema(file) if pa.types.is_null(one.type)}


def check_in_place(format_name: str, files: Sequence[File]) -> None:
    """Raise an error for files that must be loaded: in place, Spark would use the columns of one.

    Args:
        format_name: Their format.
        files: The files.

    Raises:
        AfterimageError: Not all have the same columns, or Spark does not read their types.
    """
    for file in files:
        if not file.size:
            raise AfterimageError(
                f"{shown(file.path)} is empty; if it is still being written, land it again when it"
                " is complete, or load the others with --copy"
            )
        if file.dates:
            raise AfterimageError(
                f"{shown(file.path)} is in a folder that is a date, and in place Spark does not"
                " read what is in there; load them with --copy"
            )
    first = columns_of(format_name, files[0])
    for file in files[1:]:
        if columns_of(format_name, file) != first:
            raise AfterimageError(
                f"{shown(file.path)} and {visible(files[0].name)} have different columns, and Spark"
                " would use those of only one file; load them with --copy"
            )
    if format_name == "parquet" and _has_unreadable_times(files[0]):
        raise AfterimageError(
            f"{shown(files[0].path)} has times of day, or times with nanoseconds, and Spark reads"
            " neither; load it with --copy"
        )


class _refusing:
    """Adds the file's name to an error of PyArrow or fastavro."""

    def __init__(self, file: File, format_name: str) -> None:
        self._file, self._format = file, format_name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, AfterimageError) or not isinstance(error, Exception):
            return
        said = visible(" ".join(str(error).split())) or type(error).__name__
        if "codec is supported but you need to install" in said:
            raise AfterimageError(f"cannot read {shown(self._file.path)}: {said}") from None
        if isinstance(error, OSError) and error.errno is not None:
            raise AfterimageError(f"cannot copy {shown(self._file.path)}: {said}") from None
        # ArrowInvalid is a ValueError; for a truncated file fastavro raises EOFError.
        wrong = (ValueError, OverflowError, EOFError, KeyError, IndexError, NotImplementedError)
        if isinstance(error, (*wrong, OSError)) or type(error).__module__.startswith("pyarrow"):
            raise AfterimageError(
                f"{shown(self._file.path)} is not a complete {self._format} file: {said}; repair"
                " it, or move it away"
            ) from None


def _write(target: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    from pyarrow import parquet

    schema = schema.with_metadata(_CALENDAR)
    with parquet.ParquetWriter(target, schema, coerce_timestamps="us") as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))


def _target(group: Group) -> Path:
    return group.folder / f"{uuid.uuid4().hex}.parquet"


def _partition_values(file: File) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for part in file.partitions:
        name, _, value = part.partition("=")
        values[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return values


def _with_partitions(batch: pa.RecordBatch, values: Mapping[str, str | None]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays, names = list(batch.columns), list(batch.schema.names)
    for name, value in values.items():
        arrays.append(pa.array([value] * batch.num_rows, pa.string()))
        names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names)


# Parquet


def _has_unreadable_times(file: File) -> bool:
    """Whether a Parquet file has nanoseconds or times of day, which Spark does not read.

    Spark does read INT96, as times in UTC. PyArrow takes it for nanoseconds without a zone.

    Raises:
        AfterimageError: It has those and INT96, so neither of the two reads it as it is meant.
    """
    from pyarrow import parquet

    with _refusing(file, "parquet"):
        schema = parquet.read_metadata(file.path).schema
        columns = [schema.column(number) for number in range(len(schema))]
        kinds = [(one.logical_type.type, one.logical_type.to_json()) for one in columns]
    unreadable = any(name == "TIME" or "nanoseconds" in described for name, described in kinds)
    if unreadable and any(one.physical_type == "INT96" for one in columns):
        raise AfterimageError(
            f"{shown(file.path)} has times of day, or times with nanoseconds, which Spark does not"
            " read, and beside them times of type INT96, which --copy would move to another zone;"
            " write it anew with texts for times of day, and with microseconds:"
            " df.to_parquet(..., coerce_timestamps='us')"
        )
    return unreadable


def _without_times_of_day(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts for times of day, also inside structs, lists and maps."""
    import pyarrow as pa

    def within(field: pa.Field) -> pa.Field:
        return field.with_type(_without_times_of_day(field.type))

    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([within(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(within(kind.key_field), within(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(within(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(within(kind.value_field), kind.list_size)
    return pa.list_(within(kind.value_field)) if pa.types.is_list(kind) else kind


def _rewrite(file: File, target: Path) -> None:
    """Write a Parquet file with microseconds, and with texts for times of day."""
    import pyarrow as pa
    from pyarrow import parquet

    with _refusing(file, "parquet"), parquet.ParquetFile(file.path) as read:
        fields = [field.with_type(_without_times_of_day(field.type)) for field in read.schema_arrow]
        try:
            _write(target, pa.schema(fields), read.iter_batches())
        except pa.ArrowInvalid as error:
            if "would lose data" not in str(error):
                raise
            raise AfterimageError(
                f"{shown(file.path)} has a time with more than six digits of a second, and Spark"
                " keeps six; write the file with microseconds, which cuts them off:"
                " df.to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)."
                f" Got: {visible(str(error))}"
            ) from None


# CSV


def _opened(file: File) -> IO[str]:
    opened: Callable[..., IO[Any]] = open
    name = file.path.name.lower()
    if name.endswith(".gz"):
        opened = gzip.open
    elif name.endswith(".bz2"):
        opened = bz2.open
    return opened(file.path, "rt", encoding="utf-8-sig", newline="")


def _check_quotes(file: File, separator: str) -> None:
    """Refuse a file with quotes of which PyArrow would make other cells without an error.

    Those are a quote that is not closed, which swallows rows, and text behind a closed one, as in
    `"a \\"b\\" c"`: a quote in a cell is written twice in CSV.
    """
    with _opened(file) as text:
        if not any('"' in part for part in iter(lambda: text.read(_BLOCK_BYTES), "")):
            return
    # It is the limit of the whole process: dbt reads seeds by it.
    before = csv.field_size_limit(_BLOCK_BYTES)
    with _opened(file) as text:
        rows = csv.reader(text, delimiter=separator, strict=True)
        try:
            for _ in rows:
                pass
        except csv.Error as error:
            raise AfterimageError(
                f"{shown(file.path)} has a quote in or before line {rows.line_num} that is not"
                f" closed, or text behind one that is ({error}). A quote in a cell must be written"
                ' twice: "a ""b"" c"'
            ) from None
        finally:
            csv.field_size_limit(before)


# A column in a header of Qlik's that has data types too: `ID:NUMERIC(38,0)`.
_WITH_TYPE = re.compile(r".+: *[A-Z]+[0-9]* *(\([0-9, ]*\))? *")


def _header(file: File) -> tuple[str, ...]:
    """Return the separator of a CSV file and its column names; an empty file has none."""
    with _refusing(file, "csv"):
        with _opened(file) as text:
            line = text.readline()
        is_of_excel = line.lstrip('"').lower().startswith("sep=")
        if is_of_excel or (line and not line.strip()):
            raise AfterimageError(
                f"{shown(file.path)} begins with {'`sep=`' if is_of_excel else 'an empty line'};"
                " its first row must be the header"
            )
        separator = max(_SEPARATORS, key=re.sub(r"\([0-9, ]*\)", "", line).count)
        with _opened(file) as text:
            names = next(csv.reader(text, delimiter=separator, strict=True), [])
    _check_is_header(file, names)
    if all(map(_WITH_TYPE.fullmatch, names)):
        names = [one.rpartition(":")[0] for one in names]
    names = [one.strip() or f"_c{number}" for number, one in enumerate(names)]
    _check_names(file, names)
    return (separator, *names)


def _check_is_header(file: File, names: Sequence[str]) -> None:
    """Refuse a first row that is one of values: AWS DMS and Qlik may write no header."""
    first, *others = names or [""]
    has_code = first in ("I", "U", "D") and any(one[:1].isdigit() for one in others)
    if has_code or first.isdigit():
        raise AfterimageError(
            f"{shown(file.path)} begins with {visible(', '.join(names[:4]))}, which looks like a"
            " row of values; its first row must be the header. AWS DMS writes one if its endpoint"
            " has AddColumnName, Qlik if its target adds a metadata header with column names. Put"
            " one before the rows of files that are written already: sed -i '1i Op,id,…' FILE"
        )


def _check_names(file: File, names: Sequence[str]) -> None:
    every = [*names, *_partition_values(file)]
    for number, one in enumerate(every):
        if one.lower() in (other.lower() for other in every[:number]):
            raise AfterimageError(
                f"{shown(file.path)} has two columns named {visible(one)}; rename one of them"
            )


class _Blocks:
    """The bytes of a CSV file, unpacked, as PyArrow reads them right.

    It loses the line feed of a pair whose carriage return ends a block, also within quotes, and
    fails on a header alone that has no end of line.
    """

    closed = False

    def __init__(self, path: Path) -> None:
        """Open the file."""
        openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
        self._file = openers.get(path.suffix.lower(), open)(path, "rb")
        self._held = b""

    def readable(self) -> bool:
        """Whether bytes can be read."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return the next block."""
        block: bytes = self._held + self._file.read(size - len(self._held))
        self._held = b""
        if 0 < len(block) < size:
            return block if block.endswith((b"\r", b"\n")) else block + b"\n"
        if len(block) == size > 1 and block.endswith(b"\r"):
            self._held, block = b"\r", block[:-1]
        return block


def _from_csv(file: File, columns: Sequence[str], group: Group) -> Group:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    separator, *names = columns
    partitions = _partition_values(file)
    texts = (*names, *partitions)
    schema = pa.schema([(name, pa.string()) for name in texts])

    def batches() -> Iterator[pa.RecordBatch]:
        reader = arrow_csv.open_csv(
            pa.PythonFile(_Blocks(file.path), mode="r"),
            # The first row is the header: it is read like the others, and skipped.
            arrow_csv.ReadOptions(
                column_names=names, skip_rows_after_names=1, block_size=_BLOCK_BYTES
            ),
            arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            # An empty cell is NULL; one in quotes is an empty text.
            arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield _with_partitions(batch, partitions)

    if names:
        with _refusing(file, "csv"):
            _check_quotes(file, separator)
            _write(_target(group), schema, batches())
    return replace(group, format="parquet", texts=texts)


# Avro


def _avro(opened: IO[bytes]) -> Any:
    import fastavro

    return fastavro.reader(opened)


def _from_avro(file: File, group: Group) -> Group:
    import pyarrow as pa

    partitions = _partition_values(file)
    with _refusing(file, "avro"), file.path.open("rb") as opened:
        reader = _avro(opened)
        kind, convert = _Types().of(reader.writer_schema)
        if not pa.types.is_struct(kind):
            raise ValueError("its values are not records")
        fields = [kind.field(number) for number in range(kind.num_fields)]
        _check_names(file, [field.name for field in fields])
        fields += [pa.field(name, pa.string()) for name in partitions]

        def batches() -> Iterator[pa.RecordBatch]:
            while rows := [convert(row) for row in islice(reader, _BATCH_ROWS)]:
                yield _with_partitions(
                    pa.RecordBatch.from_struct_array(pa.array(rows, kind)), partitions
                )

        _write(_target(group), pa.schema(fields), batches())
    return replace(group, format="parquet")


def _same(value: Any) -> Any:
    return value


class _Types:
    """Converts Avro types to Arrow types, each with a function that converts fastavro's values."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def of(self, schema: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Return the type and the function of a schema."""
        import pyarrow as pa

        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind)
        if name := schema.get("name"):
            self._named[name] = schema
        logical = self._logical(kind, schema)
        if logical is not None:
            return logical
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            item, convert = self.of(schema["items"])
            return pa.list_(item), _or_none(lambda value: [convert(one) for one in value])
        if kind == "map":
            item, convert = self.of(schema["values"])
            return (
                pa.map_(pa.string(), item),
                _or_none(lambda value: [(key, convert(one)) for key, one in value.items()]),
            )
        simple = {
            "null": pa.null(),
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "long": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "bytes": pa.binary(),
            "fixed": pa.binary(),
            "string": pa.string(),
            "enum": pa.string(),
        }
        if kind not in simple:
            raise ValueError(f"unknown type {kind}")
        return simple[kind], _same

    def _logical(
        self, kind: str, schema: Mapping[str, Any]
    ) -> tuple[Any, Callable[[Any], Any]] | None:
        import pyarrow as pa

        logical = f"{kind}-{schema.get('logicalType')}"
        if logical in ("long-timestamp-millis", "long-timestamp-micros"):
            return pa.timestamp("us", "UTC"), _same
        if logical in ("long-local-timestamp-millis", "long-local-timestamp-micros"):
            return pa.timestamp("us"), _same
        if logical == "int-date":
            return pa.date32(), _same
        if logical in ("int-time-millis", "long-time-micros"):
            # Spark has no type for a time of day.
            return pa.string(), _or_none(lambda value: value.isoformat())
        if logical == "string-uuid":
            return pa.string(), _or_none(str)
        if logical == "fixed-uuid" and schema["size"] == 16:
            return pa.string(), _or_none(_uuid)
        if logical in ("bytes-decimal", "fixed-decimal"):
            if schema["precision"] > 38:
                return pa.string(), _or_none(lambda value: f"{value:f}")
            return pa.decimal128(schema["precision"], schema.get("scale", 0)), _same
        return None

    def _record(self, schema: Mapping[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        import pyarrow as pa

        if schema["name"] in self._open:
            raise ValueError(f"the record {schema['name']} contains itself")
        self._open.append(schema["name"])
        fields = [(one["name"], *self.of(one["type"])) for one in schema["fields"]]
        self._open.pop()
        converters = [(name, convert) for name, _, convert in fields]
        return (
            pa.struct([(name, kind) for name, kind, _ in fields]),
            _or_none(lambda value: {name: convert(value[name]) for name, convert in converters}),
        )

    def _union(self, schemas: Sequence[Any]) -> tuple[Any, Callable[[Any], Any]]:
        import pyarrow as pa

        kinds = [one for one in map(self.of, schemas) if not pa.types.is_null(one[0])]
        if len(kinds) == 1:
            return kinds[0]
        numbers = [kind for kind, _ in kinds]
        if kinds and all(map(pa.types.is_integer, numbers)):
            return pa.int64(), _same
        if kinds and all(map(pa.types.is_floating, numbers)):
            return pa.float64(), _same
        raise ValueError("a union of several types cannot be a column")


def _uuid(value: Any) -> str:
    # fastavro decodes the UUID of a text, and not that of 16 bytes.
    return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)
