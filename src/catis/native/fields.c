/* Every tensor is looked at here before a byte of it is read: type, device, layout, dtype, shape, strides, where its
   memory is, and that nothing is written over what is read. */
#include "fields.h"

#include <stddef.h>
#include <string.h>

enum { KIND_heads, KIND_floats, KIND_indices, KIND_whole, KIND_number };

typedef struct {
    const char *name;
    int kind;
    const char *shape;
    int reads, writes, optional;
    size_t offset;
} field_t;

#define ENTRY(kind, name, shape, reads, writes, optional) \
    {#name, KIND_##kind, shape, reads, writes, optional, offsetof(call_t, name)},
static const field_t fields[] = {FIELDS(ENTRY)};
enum { COUNT = sizeof fields / sizeof *fields };
static PyObject *field_names[COUNT]; /* interned, as Python passes them */

static PyObject *tensor_type, *float32, *int64, *strided;
static PyObject *name_dtype, *name_is_cpu, *name_layout, *name_is_neg, *name_shape, *name_stride, *name_data_ptr;

/* The memory of one tensor. */
typedef struct {
    char *begin, *end;
} extent_t;

static int64_t *size_of(sizes_t *sizes, char letter) {
#define CASE(of, name) \
    case of: return &sizes->name;
    switch (letter) { SIZES(CASE) }
    return NULL;
}

/* How far one image of a field lies behind the other, in bytes. */
static int64_t image_step(const field_t *field, call_t *in) {
    if (field->kind == KIND_heads) return ((heads_t *)((char *)in + field->offset))->image * (int64_t)sizeof(float);
    int64_t step = field->kind == KIND_indices ? sizeof(int64_t) : sizeof(float);
    for (const char *letter = field->shape + 1; *letter; letter++)
        if (*letter != '1') step *= *size_of(&in->n, *letter);
    return step;
}

call_t image_of(const call_t *all, int64_t b) {
    call_t in = *all;
    for (int i = 0; b && i < COUNT; i++) {
        char *data, *field = (char *)&in + fields[i].offset; /* the pointer comes first in a heads_t */
        if (fields[i].kind == KIND_whole || fields[i].kind == KIND_number) continue;
        memcpy(&data, field, sizeof data);
        if (data) data += b * image_step(fields + i, &in);
        memcpy(field, &data, sizeof data);
    }
    return in;
}

/* Whether an attribute is this very object; -1 for an error. */
static int is(PyObject *tensor, PyObject *name, PyObject *expected) {
    PyObject *value = PyObject_GetAttr(tensor, name);
    if (!value) return -1;
    Py_DECREF(value); /* dtypes, layouts and booleans live for ever */
    return value == expected;
}

/* Whether all that a kernel needs of a tensor's kind is so. */
static int check_kind(PyObject *tensor, const field_t *field) {
    if ((PyObject *)Py_TYPE(tensor) != tensor_type) {
        if (PyObject_IsInstance(tensor, tensor_type) > 0) return NOT_MINE;
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s is not a tensor: %R", field->name, tensor);
        return FAILED;
    }
    const int whole = field->kind == KIND_indices;
    const int cpu = is(tensor, name_is_cpu, Py_True), dense = is(tensor, name_layout, strided);
    const int typed = is(tensor, name_dtype, whole ? int64 : float32);
    if (cpu < 0 || dense < 0 || typed < 0) return FAILED;
    if (!cpu || !dense) return NOT_MINE;
    if (typed) return DONE;
    if (!whole) return NOT_MINE;
    PyErr_Format(PyExc_IndexError, "%s does not hold int64: a plan's indices do", field->name);
    return FAILED;
}

/* Its sizes, under their letters. A tensor of another form (a bias for each query, say) or without numbers is PyTorch's;
   sizes that contradict each other are an error. */
static int check_shape(PyObject *shape, const field_t *field, sizes_t *sizes) {
    const Py_ssize_t count = PyTuple_Size(shape);
    int64_t numbers = 1;
    int fits = 1, known_form = count == (Py_ssize_t)strlen(field->shape);
    for (Py_ssize_t i = 0; known_form && i < count; i++) {
        const int64_t size = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        int64_t *known = size_of(sizes, field->shape[i]);
        if (known && *known < 0) *known = size;
        if (known) fits &= size == *known;
        if (!known) known_form = size == 1;
        numbers *= size;
    }
    if (PyErr_Occurred()) return FAILED;
    if (!known_form && field->kind != KIND_indices) return NOT_MINE;
    if (known_form && fits) return numbers ? DONE : NOT_MINE;
    PyErr_Format(PyExc_IndexError, "%s of shape %S does not fit the tensors before it: expected (%s)", field->name, shape,
                 field->shape);
    return FAILED;
}

/* Strides of a (B, H, N, d) tensor, or none but contiguous ones; and how many numbers lie between first and last. */
static int check_strides(PyObject *stride, PyObject *shape, const field_t *field, heads_t *heads, int64_t *reach) {
    const Py_ssize_t count = PyTuple_Size(shape);
    int64_t expected = 1, steps[4] = {0};
    int fits = 1;
    *reach = 1;
    for (Py_ssize_t i = count - 1; fits && i >= 0; i--) {
        const int64_t size = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        steps[i] = PyLong_AsLongLong(PyTuple_GetItem(stride, i));
        fits = size == 1 || steps[i] == expected || (field->kind == KIND_heads && i < 3);
        expected *= size;
        *reach += (size - 1) * steps[i];
    }
    if (PyErr_Occurred()) return FAILED;
    heads->image = steps[0], heads->head = steps[1], heads->token = steps[2];
    if (fits) return DONE;
    PyErr_Format(PyExc_ValueError, "%s has the strides %S: its numbers do not lie one after the other", field->name, stride);
    return FAILED;
}

/* Where its memory is. A tensor that has none (of torch.func, say) raises here, and is left to PyTorch. */
static int address(PyObject *tensor, char **data) {
    PyObject *flipped = PyObject_CallMethodObjArgs(tensor, name_is_neg, NULL);
    if (!flipped) return FAILED;
    Py_DECREF(flipped);
    if (flipped == Py_True) return NOT_MINE; /* its memory holds the negative */
    PyObject *number = PyObject_CallMethodObjArgs(tensor, name_data_ptr, NULL);
    if (!number) {
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return FAILED;
        return PyErr_Clear(), NOT_MINE;
    }
    *data = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? FAILED : *data ? DONE : NOT_MINE;
}

static int read_tensor(PyObject *tensor, const field_t *field, char *into, sizes_t *sizes, extent_t *extent) {
    heads_t heads = {0};
    int64_t reach = 0;
    int code = check_kind(tensor, field);
    if (code) return code;
    PyObject *shape = PyObject_GetAttr(tensor, name_shape);
    PyObject *stride = shape ? PyObject_CallMethodObjArgs(tensor, name_stride, NULL) : NULL;
    code = stride ? check_shape(shape, field, sizes) : FAILED;
    if (!code) code = check_strides(stride, shape, field, &heads, &reach);
    Py_XDECREF(shape), Py_XDECREF(stride);
    if (!code) code = address(tensor, &extent->begin);
    if (code) return code;
    extent->end = extent->begin + reach * (field->kind == KIND_indices ? sizeof(int64_t) : sizeof(float));
    heads.data = (const float *)extent->begin;
    memcpy(into, field->kind == KIND_heads ? (void *)&heads : (void *)&extent->begin,
           field->kind == KIND_heads ? sizeof heads : sizeof extent->begin);
    return DONE;
}

static int read_field(PyObject *given, const field_t *field, int kernel, call_t *in, extent_t *extent) {
    char *into = (char *)in + field->offset;
    if (field->kind == KIND_whole) {
        const int64_t value = PyLong_AsLongLong(given);
        memcpy(into, &value, sizeof value);
    } else if (field->kind == KIND_number) {
        const float value = (float)PyFloat_AsDouble(given);
        memcpy(into, &value, sizeof value);
    } else if (given != Py_None || !(field->optional & kernel)) {
        return read_tensor(given, field, into, &in->n, extent);
    }
    return PyErr_Occurred() ? FAILED : DONE;
}

/* The field of this name; arguments usually come in the order of the struct, so the search begins behind the last. */
static int index_of(PyObject *name, int after) {
    for (int i = after; i < COUNT; i++)
        if (field_names[i] == name) return i;
    for (int i = 0; i < COUNT; i++)
        if (PyUnicode_Compare(field_names[i], name) == 0) return i;
    return -1;
}

/* No tensor that is written may share memory with another one. */
static int check_overlap(int kernel, const extent_t extents[COUNT]) {
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; fields[i].writes & kernel && j < COUNT; j++)
            if (i != j && extents[i].begin < extents[j].end && extents[j].begin < extents[i].end) {
                PyErr_Format(PyExc_ValueError, "%s shares memory with %s", fields[i].name, fields[j].name);
                return FAILED;
            }
    return DONE;
}

int fill(call_t *in, int kernel, PyObject *const *values, PyObject *names) {
    const Py_ssize_t count = names ? PyTuple_Size(names) : 0;
    extent_t extents[COUNT] = {{0}};
    char given[COUNT] = {0};
    memset(in, 0, sizeof *in);
    memset(&in->n, -1, sizeof in->n);
    if (!tensor_type) return PyErr_SetString(PyExc_RuntimeError, "call use() first"), FAILED;
    for (Py_ssize_t i = 0, at = -1; i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        at = index_of(name, (int)at + 1);
        if (at < 0 || !((fields[at].reads | fields[at].writes) & kernel))
            return PyErr_Format(PyExc_TypeError, "there is no argument %R", name), FAILED;
        const int code = read_field(values[i], fields + at, kernel, in, extents + at);
        if (code) return code;
        given[at] = 1;
    }
    for (int i = 0; i < COUNT; i++)
        if ((fields[i].reads | fields[i].writes) & ~fields[i].optional & kernel && !given[i])
            return PyErr_Format(PyExc_TypeError, "the argument %s is missing", fields[i].name), FAILED;
    return check_overlap(kernel, extents);
}

int know_names(void) {
    name_dtype = PyUnicode_InternFromString("dtype"), name_is_cpu = PyUnicode_InternFromString("is_cpu");
    name_layout = PyUnicode_InternFromString("layout"), name_is_neg = PyUnicode_InternFromString("is_neg");
    name_shape = PyUnicode_InternFromString("shape"), name_stride = PyUnicode_InternFromString("stride");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    for (int i = 0; i < COUNT; i++) field_names[i] = PyUnicode_InternFromString(fields[i].name);
    return PyErr_Occurred() ? -1 : 0;
}

void know_torch(PyObject *tensor, PyObject *single, PyObject *whole, PyObject *dense) {
    Py_INCREF(tensor), Py_INCREF(single), Py_INCREF(whole), Py_INCREF(dense);
    tensor_type = tensor, float32 = single, int64 = whole, strided = dense;
}
