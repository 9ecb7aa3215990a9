"""SQL over a results store: DuckDB reads the records where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Any

from catis.report.table import Table
from catis.runs.record import Record, timm_row
from catis.runs.store import Store

_KINDS = {"str": "VARCHAR", "int": "INTEGER", "float": "DOUBLE", "bool": "BOOLEAN", "Sequence[int]": "INTEGER[]"}
_LONG = ("param_count", "data_seed", "seed")
COLUMNS = {
    known.name: "BIGINT" if known.name in _LONG else _KINDS.get(str(known.type).removesuffix(" | None"), "JSON")
    for known in fields(Record)
}
"""Columns of the table `results`, one for each field of a record."""
SUMMARY = """
    SELECT model, data || coalesce('@' || corruption || ':' || severity, '') AS data,
        if(calibrated = '', method, method || ' calibrated') AS method, schedule AS r,
        round(top1, 2) AS top1, round(top1_low, 2) AS low, round(top1_high, 2) AS high, round(top5, 2) AS top5,
        n_read AS n, n_broken AS broken, round(gmacs, 3) AS gmacs, tokens[-1] AS tokens, round(agreement, 2) AS agree
    FROM results ORDER BY model, 2, 3, results.gmacs DESC
"""


def filter_records(records: Sequence[Record], wanted: Mapping[str, Sequence[str]]) -> list[Record]:
    """Records whose fields match one of the patterns given for each, with `*` and `?` as in file names.

    Example:
        >>> filter_records([], {"method": ["tome"]})
        []
    """
    return [
        record
        for record in records
        if all(
            any(fnmatchcase(str(getattr(record, field)), pattern) for pattern in patterns)
            for field, patterns in wanted.items()
            if patterns
        )
    ]


def timm_table(records: Sequence[Record]) -> Table:
    """The records as timm's validation writes them, with more columns after timm's."""
    rows = [timm_row(record) for record in records]
    return Table(list(rows[0]) if rows else [], [list(row.values()) for row in rows])


def query(store: Store, records: Sequence[Record], sql: str = SUMMARY) -> Table:
    """Ask DuckDB. The table `results` has these records, `predictions` their images, with the run's name as `run`.

    Raises:
        ValueError: DuckDB cannot run the query; the message is DuckDB's.
    """
    import duckdb

    connection = duckdb.connect()
    try:
        _fill(connection, store, records)
        answer = connection.execute(sql)
        return Table([column[0] for column in answer.description or ()], answer.fetchall())
    except duckdb.Error as error:
        raise ValueError(f"DuckDB: {error}") from error
    finally:
        connection.close()


def _fill(connection: Any, store: Store, records: Sequence[Record]) -> None:
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
    if not records:
        empty = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        connection.execute(f"CREATE TABLE results ({empty})")
        return
    files = [str(store.path(record.name)) for record in records]
    read = f"read_json($files, columns = {{{columns}}}, format = 'auto', maximum_object_size = 268435456)"
    old = "REPLACE (coalesce(calibrated, '') AS calibrated)"  # records of before do not say it
    connection.execute(f"CREATE TABLE results AS SELECT * {old} FROM {read}", {"files": files})
    tables = [str(store.folder / record.predictions) for record in records if record.predictions]
    if tables:
        listed = ", ".join("'" + table.replace("'", "''") + "'" for table in tables)
        connection.execute(
            f"CREATE VIEW predictions AS SELECT results.name AS run, images.* EXCLUDE (filename) "
            f"FROM read_parquet([{listed}], filename = true) AS images "
            f"JOIN results ON results.predictions = parse_filename(images.filename)"
        )
