/* Python's arguments as a call_t. */
#ifndef CATIS_FIELDS_H
#define CATIS_FIELDS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "kernels.h"

enum { DONE, NOT_MINE, FAILED }; /* FAILED: a Python error is set */

/* Once: names, and what PyTorch calls things. */
int know_names(void);
void know_torch(PyObject *tensor, PyObject *float32, PyObject *int64, PyObject *strided);

/* Fills the fields that a kernel has from arguments by name; no byte of a tensor is read before all are checked. */
int fill(call_t *in, int kernel, PyObject *const *values, PyObject *names);

#endif
