"""The deciding and the merging as C functions, for float32 tensors on CPU.

One call does for all images of a batch what the methods do in dozens of small operations; which tokens go and what
becomes of them is the same (tests/core/test_native.py). Built by hatch_build.py when the package is installed, if there
is a C compiler; without it, and for every other kind of tensor, PyTorch's operations run.
"""
