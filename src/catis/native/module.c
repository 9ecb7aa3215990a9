/* The kernels for Python: each is called with the number of threads and its struct's fields by name. Every tensor is
   looked at here before a byte of it is read: type, device, layout, dtype, shape, strides, and where its memory is.
   A kernel returns True, or False for "not mine": a tensor that only PyTorch's own operations understand. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stddef.h>
#include <string.h>

#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { KIND_heads, KIND_floats, KIND_output, KIND_indices, KIND_chosen, KIND_whole, KIND_number };
enum { DONE, NOT_MINE, FAILED };

typedef struct {
    const char *name;
    int kind;
    const char *shape;
    size_t offset;
    PyObject *interned; /* the name, as Python passes it */
} field_t;

#define COUNT(table) (Py_ssize_t)(sizeof(table) / sizeof *(table))
#define ENTRY(kind, name, shape) {#name, KIND_##kind, shape, offsetof(STRUCT, name), NULL},

#define STRUCT tome_t
static field_t tome_fields[] = {TOME(ENTRY)};
#undef STRUCT
#define STRUCT pitome_t
static field_t pitome_fields[] = {PITOME(ENTRY)};
#undef STRUCT
#define STRUCT catis_t
static field_t catis_fields[] = {CATIS(ENTRY)};
#undef STRUCT
#define STRUCT received_t
static field_t received_fields[] = {RECEIVED(ENTRY)};
#undef STRUCT
#define STRUCT mctf_t
static field_t mctf_fields[] = {MCTF(ENTRY)};
#undef STRUCT
#define STRUCT merge_t
static field_t merge_fields[] = {MERGE(ENTRY)};
#undef STRUCT

/* What PyTorch calls things; `use` sets the first four, once. */
static PyObject *tensor_type, *float32, *int64, *strided;
static PyObject *name_dtype, *name_is_cpu, *name_layout, *name_is_neg, *name_shape, *name_stride, *name_data_ptr;

static int64_t *size_of(sizes_t *sizes, char letter) {
#define CASE(of, name) \
    case of: return &sizes->name;
    switch (letter) { SIZES(CASE) }
    return NULL;
}

/* Whether an attribute is this very object; -1 for an error. */
static int is(PyObject *tensor, PyObject *name, PyObject *expected) {
    PyObject *value = PyObject_GetAttr(tensor, name);
    if (!value) return -1;
    Py_DECREF(value); /* dtypes, layouts and booleans live for ever */
    return value == expected;
}

/* Whether all that a kernel needs of a tensor's kind is so: DONE, NOT_MINE or FAILED. */
static int check_kind(PyObject *tensor, const field_t *field) {
    if ((PyObject *)Py_TYPE(tensor) != tensor_type) {
        if (PyObject_IsInstance(tensor, tensor_type) > 0) return NOT_MINE;
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s is not a tensor: %R", field->name, tensor);
        return FAILED;
    }
    const int whole = field->kind == KIND_indices || field->kind == KIND_chosen;
    const int cpu = is(tensor, name_is_cpu, Py_True), dense = is(tensor, name_layout, strided);
    const int typed = is(tensor, name_dtype, whole ? int64 : float32);
    if (cpu < 0 || dense < 0 || typed < 0) return FAILED;
    if (!cpu || !dense) return NOT_MINE;
    if (typed) return DONE;
    if (!whole) return NOT_MINE;
    PyErr_Format(PyExc_IndexError, "%s does not hold int64: a plan's indices do", field->name);
    return FAILED;
}

/* Its sizes, under their letters; and whether it has numbers at all. */
static int check_shape(PyObject *shape, const field_t *field, const char *letters, sizes_t *sizes) {
    const Py_ssize_t count = PyTuple_Size(shape);
    int64_t numbers = 1;
    int fits = count == (Py_ssize_t)strlen(letters);
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        const int64_t size = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        int64_t *known = size_of(sizes, letters[i]);
        if (known && *known < 0) *known = size;
        fits = size == (known ? *known : 1);
        numbers *= size;
    }
    if (PyErr_Occurred()) return FAILED;
    if (fits) return numbers ? DONE : NOT_MINE;
    PyErr_Format(PyExc_IndexError, "%s of shape %S does not fit the tensors before it: expected (%s)", field->name, shape,
                 letters);
    return FAILED;
}

/* Strides of a (B, H, N, d) tensor, or none but contiguous ones. */
static int check_strides(PyObject *stride, PyObject *shape, const field_t *field, heads_t *heads) {
    const Py_ssize_t count = PyTuple_Size(shape);
    int64_t expected = 1, steps[4] = {0};
    int fits = count <= 4;
    for (Py_ssize_t i = count - 1; fits && i >= 0; i--) {
        const int64_t size = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        steps[i] = PyLong_AsLongLong(PyTuple_GetItem(stride, i));
        fits = size == 1 || steps[i] == expected || (heads && i < 3);
        expected *= size;
    }
    if (PyErr_Occurred()) return FAILED;
    if (heads) heads->image = steps[0], heads->head = steps[1], heads->token = steps[2];
    if (fits) return DONE;
    PyErr_Format(PyExc_ValueError, "%s has the strides %S: its numbers do not lie one after the other", field->name, stride);
    return FAILED;
}

/* Where its memory is. A tensor that has none (of torch.func, say) raises here, and is left to PyTorch. */
static int address(PyObject *tensor, void **data) {
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

static int read_tensor(PyObject *tensor, const field_t *field, char *into, sizes_t *sizes) {
    const int optional = field->shape[0] == '?';
    heads_t heads = {0};
    void *data = NULL;
    if (tensor != Py_None || !optional) {
        int code = check_kind(tensor, field);
        if (code) return code;
        PyObject *shape = PyObject_GetAttr(tensor, name_shape);
        PyObject *stride = shape ? PyObject_CallMethodObjArgs(tensor, name_stride, NULL) : NULL;
        code = stride ? check_shape(shape, field, field->shape + optional, sizes) : FAILED;
        if (!code) code = check_strides(stride, shape, field, field->kind == KIND_heads ? &heads : NULL);
        Py_XDECREF(shape), Py_XDECREF(stride);
        if (!code) code = address(tensor, &data);
        if (code) return code;
    }
    heads.data = data;
    if (field->kind == KIND_heads)
        memcpy(into, &heads, sizeof heads);
    else
        memcpy(into, &data, sizeof data);
    return DONE;
}

static int read_field(PyObject *given, const field_t *field, char *into, sizes_t *sizes) {
    if (field->kind == KIND_whole) {
        const int64_t value = PyLong_AsLongLong(given);
        memcpy(into, &value, sizeof value);
    } else if (field->kind == KIND_number) {
        const float value = (float)PyFloat_AsDouble(given);
        memcpy(into, &value, sizeof value);
    } else {
        return read_tensor(given, field, into, sizes);
    }
    return PyErr_Occurred() ? FAILED : DONE;
}

/* The field of this name; they come in the order of the struct, unless somebody has changed one of the two. */
static const field_t *field_of(PyObject *name, const field_t *fields, Py_ssize_t count, Py_ssize_t likely) {
    if (likely < count && fields[likely].interned == name) return fields + likely;
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyUnicode_Compare(fields[i].interned, name) == 0) return fields + i;
    PyErr_Format(PyExc_TypeError, "there is no argument %R", name);
    return NULL;
}

/* Fills a struct from the arguments; its sizes come first in it. */
static int fill(void *in, const field_t *fields, Py_ssize_t count, PyObject *const *args, Py_ssize_t given,
                PyObject *names, int *threads) {
    sizes_t *sizes = in;
    memset(sizes, -1, sizeof *sizes);
    if (!tensor_type) return PyErr_SetString(PyExc_RuntimeError, "call use() first"), FAILED;
    if (given != 1 || !names || PyTuple_Size(names) != count)
        return PyErr_Format(PyExc_TypeError, "expected the number of threads, and %zd arguments by name", count), FAILED;
    *threads = (int)PyLong_AsLong(args[0]);
    if (PyErr_Occurred()) return FAILED;
    for (Py_ssize_t i = 0; i < count; i++) {
        const field_t *field = field_of(PyTuple_GetItem(names, i), fields, count, i);
        const int code = field ? read_field(args[1 + i], field, (char *)in + field->offset, sizes) : FAILED;
        if (code) return code;
    }
    return DONE;
}

static int fails(const char *why) { return PyErr_SetString(PyExc_ValueError, why), FAILED; }

/* Prefix and patches make up the tokens; those that stay and those that go make up the patches. */
static int relate(sizes_t *n, int64_t prefix) {
    if (prefix < 0 || prefix >= n->tokens) return fails("the prefix is longer than the sequence");
    const int64_t patches = n->tokens - prefix;
    if ((n->patches >= 0 && n->patches != patches) || (n->kept >= 0 && n->kept + n->gone != patches) ||
        (n->left >= 0 && n->left != prefix + n->kept)) {
        PyErr_Format(PyExc_IndexError, "%lld tokens, %lld of them prefix: keep and removed must hold every patch once, and "
                     "scores, sizes and weights one number for each", (long long)n->tokens, (long long)prefix);
        return FAILED;
    }
    n->patches = patches;
    return DONE;
}

static int at_most_half(const sizes_t *n) {
    return 2 * n->gone > n->patches ? fails("at most half of the patch tokens can go in one block") : DONE;
}

static int check_tome(const tome_t *in) { return at_most_half(&in->n); }
static int check_pitome(const pitome_t *in) { return at_most_half(&in->n); }
static int check_received(const received_t *in) { return (void)in, DONE; }

static int check_catis(const catis_t *in) {
    if (in->evictions < 0 || in->evictions > in->n.gone) return fails("more tokens to evict than go");
    if (in->uses_cls && !in->attention) return fails("the score needs A_cls, and there is no memory for it");
    return at_most_half(&in->n);
}

static int check_mctf(const mctf_t *in) {
    return in->first < 0 || in->first > in->n.gone ? fails("more tokens in one direction than go") : at_most_half(&in->n);
}

static int check_merge(const merge_t *in) {
    return !in->next_size != !in->log_size ? fails("sizes and their logarithms go together") : DONE;
}

static PyObject *result(int code) {
    if (code == NO_MEMORY) return PyErr_NoMemory();
    if (code == WRONG_PLAN) {
        PyErr_SetString(PyExc_IndexError, "the plan names a token or a target that does not exist: its method is wrong");
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* A kernel runs without the interpreter's lock. */
#define EXPOSE(name, kernel)                                                                                        \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {         \
        name##_t in;                                                                                                \
        int threads, code = fill(&in, name##_fields, COUNT(name##_fields), args, given, names, &threads);          \
        (void)self;                                                                                                 \
        if (!code) code = relate(&in.n, in.prefix);                                                                 \
        if (!code) code = check_##name(&in);                                                                        \
        if (code == FAILED) return NULL;                                                                            \
        if (code == NOT_MINE) Py_RETURN_FALSE;                                                                      \
        Py_BEGIN_ALLOW_THREADS code = kernel(&in, threads);                                                         \
        Py_END_ALLOW_THREADS return result(code);                                                                   \
    }

EXPOSE(tome, decide_tome)
EXPOSE(pitome, decide_pitome)
EXPOSE(catis, decide_catis)
EXPOSE(received, attention_received)
EXPOSE(mctf, decide_mctf)
EXPOSE(merge, merge)

/* use(Tensor, float32, int64, strided) */
static PyObject *py_use(PyObject *self, PyObject *args) {
    PyObject *type, *real, *whole, *dense;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &type, &real, &whole, &dense)) return NULL;
    Py_INCREF(type), Py_INCREF(real), Py_INCREF(whole), Py_INCREF(dense);
    tensor_type = type, float32 = real, int64 = whole, strided = dense;
    Py_RETURN_NONE;
}

/* Address of the OpenMP that this file was bound to, or None: tells whether PyTorch's threads are ours too. */
static PyObject *py_openmp(PyObject *self, PyObject *none) {
    (void)self, (void)none;
#ifdef _OPENMP
    return PyLong_FromVoidPtr((void *)(intptr_t)&omp_get_max_threads);
#else
    Py_RETURN_NONE;
#endif
}

#define METHOD(python, name) {python, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL | METH_KEYWORDS, NULL}
static PyMethodDef methods[] = {
    METHOD("decide_tome", tome),
    METHOD("decide_pitome", pitome),
    METHOD("decide_catis", catis),
    METHOD("attention_received", received),
    METHOD("decide_mctf", mctf),
    METHOD("merge", merge),
    {"use", py_use, METH_VARARGS, NULL},
    {"openmp", py_openmp, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int intern(field_t *fields, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(fields[i].interned = PyUnicode_InternFromString(fields[i].name))) return -1;
    return 0;
}

static int start(PyObject *module) {
    (void)module;
    name_dtype = PyUnicode_InternFromString("dtype"), name_is_cpu = PyUnicode_InternFromString("is_cpu");
    name_layout = PyUnicode_InternFromString("layout"), name_is_neg = PyUnicode_InternFromString("is_neg");
    name_shape = PyUnicode_InternFromString("shape"), name_stride = PyUnicode_InternFromString("stride");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
#define INTERN(table) intern(table, COUNT(table))
    if (INTERN(tome_fields) || INTERN(pitome_fields) || INTERN(catis_fields) || INTERN(received_fields)) return -1;
    return INTERN(mctf_fields) || INTERN(merge_fields) || PyErr_Occurred() ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_kernels(void) { return PyModuleDef_Init(&definition); }
