"""SQL over the store."""

import pytest

from catis.runs import Store
from catis.runs.query import COLUMNS, filter_records, query
from catis.runs.record import Record
from tests.runs.records import predictions, record


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "it's a store")
    store.write(record("a", method="vanilla", schedule="", r=0, gmacs=0.12), predictions(right=4))
    store.write(record("b", options={"ratio": 0.5}, agreement=75.0, agreement_n=4), predictions(right=3))
    store.write(record("c", r=None, schedule="[9, 2]", data="other", corruption="fog", severity=3))
    return store


def test_every_field_of_a_record_is_a_column(store):
    found = query(store, store.records(), "SELECT * FROM results ORDER BY name")
    assert list(found.columns) == list(COLUMNS)
    assert set(COLUMNS) == set(Record.__dataclass_fields__)
    assert [row[0] for row in found.rows] == ["a", "b", "c"]


def test_the_summary(store):
    found = query(store, store.records())
    cells = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [(row["data"], row["method"], row["r"]) for row in cells] == [
        ("other@fog:3", "tome", "[9, 2]"), ("set", "tome", "8"), ("set", "vanilla", ""),
    ]  # fmt: skip
    assert cells[1]["agree"] == 75.0
    assert cells[2]["agree"] is None


def test_predictions_are_a_table_too(store):
    sql = "SELECT run, count(*), sum((predicted = label)::INT) FROM predictions GROUP BY run ORDER BY run"
    assert query(store, store.records(), sql).rows == [("a", 4, 4), ("b", 4, 3)]


def test_json_columns_and_files_of_timm_can_be_joined(store, tmp_path):
    timm = tmp_path / "results-imagenet.csv"
    timm.write_text("model,top1\ntiny-6,80.5\n")
    sql = f"SELECT name, theirs.top1 - results.top1 FROM results JOIN read_csv('{timm}') theirs USING (model) LIMIT 1"
    assert query(store, store.records(), sql).rows[0][1] == 5.5
    sql = "SELECT name FROM results WHERE options->>'ratio' = '0.5'"
    assert query(store, store.records(), sql).rows == [("b",)]


def test_filters_and_an_empty_store(store):
    records = store.records()
    assert [one.name for one in filter_records(records, {"method": ["van*"], "data": []})] == ["a"]
    assert filter_records(records, {"data": ["set"], "model": ["nothing"]}) == []
    assert query(store, []).rows == []


def test_a_wrong_query_says_what_duckdb_says(store):
    with pytest.raises(ValueError, match=r"DuckDB.*nothing"):
        query(store, store.records(), "SELECT nothing FROM results")
