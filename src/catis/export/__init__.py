"""Out of PyTorch: programs, ONNX files and OpenVINO models of a reduced model, checked before they are called done."""

from catis.export.check import ExportMismatchError
from catis.export.held_out import Split, split_images
from catis.export.int8 import Agreement, AgreementError
from catis.export.layouts import write_layout
from catis.export.onnx_file import export_onnx
from catis.export.program import export_program, save_program
from catis.export.report import ExportReport
from catis.export.writing import Wanted, deploy, require_tools

__all__ = [
    "Agreement", "AgreementError", "ExportMismatchError", "ExportReport", "Split", "Wanted", "deploy", "export_onnx",
    "export_program", "require_tools", "save_program", "split_images", "write_layout",
]  # fmt: skip
