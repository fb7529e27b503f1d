"""CSV without a header, and files in folders that are dates."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.files import File, look
from dbt_afterimage.landing.stage import check_in_place, columns_of, stage


def written(path: Path, text: str) -> File:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return File(path, path.name, path.stat().st_size, path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    "row",
    [
        # Those of Amazon's manual: changes, and a file of a full load.
        "I,101,Smith,Bob,4-Jun-14,New York",
        "D,101,Smith,Bob,8-Oct-16,Tampa",
        "100,Jones,Ann",
        # Of Qlik.
        '"20220102204950120000000000000000001","I","3F80","pos","INSERT","t1","2022-01-02","1","Eve"',
    ],
)
def test_a_first_row_of_values_is_no_header(row: str, tmp_path: Path) -> None:
    file = written(tmp_path / "20240801-070000000.csv", f"{row}\n")
    said = "which looks like a row of values; its first row must be the header.* AddColumnName"
    with pytest.raises(AfterimageError, match=said):
        columns_of("csv", file)


@pytest.mark.parametrize("row", ["Op,id,name", "U,I,R", "country,2023,2024", ",0,1", "1st,2nd"])
def test_a_header_may_have_short_names_and_numbers(row: str, tmp_path: Path) -> None:
    names = [name or "_c0" for name in row.split(",")]
    assert columns_of("csv", written(tmp_path / "a.csv", f"{row}\n")) == (",", *names)


def test_a_header_of_qlik_may_have_types(tmp_path: Path) -> None:
    typed = '"header__change_seq:STRING(35)";"id:NUMERIC(38,0)";"sum:NUMERIC (9,2)";"at:DATETIME"'
    for separator, row in (
        (";", typed),
        (";", typed.replace('"', "")),
        (",", typed.replace(";", ",")),
    ):
        file = written(tmp_path / "20211201-112233444.csv", f"{row}\n")
        assert columns_of("csv", file) == (separator, "header__change_seq", "id", "sum", "at")
    for row in ("id,at:DATE", "a:b,c:d", "id,12:AM"):
        names = row.split(",")
        assert columns_of("csv", written(tmp_path / "a.csv", f"{row}\n")) == (",", *names)


def test_what_describes_the_files_of_qlik_is_no_file_of_the_table(tmp_path: Path) -> None:
    for name in ("20211201-112233444", "20211201-112243444"):
        written(tmp_path / f"{name}.csv", "id\n1\n")
        written(tmp_path / f"{name}.dfm", "{}")
    landing = look(tmp_path)
    assert {file.path.suffix for file in landing.files} == {".csv"}
    assert landing.is_described
    assert not look(tmp_path / f"{name}.csv").is_described
    with pytest.raises(AfterimageError, match=r"\.dfm has a format that cannot be landed"):
        look(tmp_path / f"{name}.dfm")


PERIOD = "20170313T123000_20170313T170000"


@pytest.mark.parametrize(
    "folder", ["2022/01/05", "2022/01/05/16", "20220105", "2022/1/15", "01_2022", "2022", PERIOD]
)
def test_folders_that_are_a_date_are_of_one_table(folder: str, tmp_path: Path) -> None:
    for place in (".", folder, f"code=7/{folder}"):
        written(tmp_path / place / "a.json", f'{{"at": "{place}"}}\n')
    with pytest.raises(AfterimageError, match="different partition columns: none and code"):
        look(tmp_path)
    (tmp_path / "code=7" / folder / "a.json").unlink()
    landing = look(tmp_path)
    (tmp_path / ".staged").mkdir()
    [group] = stage("json", landing.files, tmp_path / ".staged")
    # Spark reads what lies in the folder itself.
    assert sorted(file.read_text() for file in group.folder.iterdir()) == sorted(
        file.path.read_text() for file in landing.files
    )
    with pytest.raises(AfterimageError, match="in place Spark does not read what is in there"):
        check_in_place("json", landing.files)


@pytest.mark.parametrize(
    "folder", ["orders", "1", "1205", "2022/orders", "99/12/31", "1234567890123"]
)
def test_other_folders_may_be_tables(folder: str, tmp_path: Path) -> None:
    written(tmp_path / folder / "a.csv", "id\n1\n")
    with pytest.raises(AfterimageError, match=f"has the folder {folder}, which is neither a part"):
        look(tmp_path)
