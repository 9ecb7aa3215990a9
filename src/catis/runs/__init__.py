"""What a run is, what came out of it, and where that is kept."""

from catis.runs.predictions import Predictions
from catis.runs.record import Record, timm_row
from catis.runs.spec import DataSpec, ModelSpec, RunSpec
from catis.runs.store import Store

__all__ = ["DataSpec", "ModelSpec", "Predictions", "Record", "RunSpec", "Store", "timm_row"]
