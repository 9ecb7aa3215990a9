"""Records: timm's columns, what is shared by equal runs, and what is no record."""

import hashlib
import json

import pytest

from catis.runs import Record, timm_row
from catis.runs.record import DamagedRecordError
from tests.runs.records import record

# The header of timm's results CSV files, in the order in which its validation script writes them.
TIMM = ["model", "top1", "top1_err", "top5", "top5_err", "param_count", "img_size", "crop_pct", "interpolation"]


def test_timms_columns_come_first_and_as_timm_writes_them():
    row = timm_row(record(top1=75.123456, param_count=5717416))
    assert list(row)[: len(TIMM)] == TIMM
    assert (row["top1"], row["top1_err"], row["param_count"], row["img_size"]) == (75.1235, 24.8765, 5.72, 96)
    assert (row["data"], row["method"], row["n_read"], row["n_broken"], row["tokens"]) == ("set", "tome", 4, 1, 128)


def test_the_environment_is_no_content():
    assert record(environment={"date": "1"}).content() == record(environment={"date": "2"}).content()
    assert record(top1=1.0).content() != record(top1=2.0).content()


def test_numbers_that_json_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        record(top1=float("nan")).to_json()


@pytest.mark.parametrize("name", ["top1", "environment"])
def test_a_record_of_other_fields_is_named(name):
    with pytest.raises(DamagedRecordError, match=f"missing or unknown: {name}"):
        Record.from_json(without(name))


def test_a_record_of_before_calibrated_weights_is_read():
    assert Record.from_json(without("calibrated")) == Record.from_json(record().to_json())


def without(name):
    """A record's file that lacks a field and is whole otherwise."""
    content = json.loads(record().to_json())
    content.pop("checksum")
    del content[name]
    content["checksum"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps(content)
