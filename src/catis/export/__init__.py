"""Out of PyTorch: a `torch.export` program or an ONNX file of a reduced model, checked before it is called done."""

from catis.export.check import ExportMismatchError
from catis.export.onnx_file import export_onnx
from catis.export.program import export_program, save_program
from catis.export.report import ExportReport

__all__ = ["ExportMismatchError", "ExportReport", "export_onnx", "export_program", "save_program"]
