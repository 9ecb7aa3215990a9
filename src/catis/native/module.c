/* The kernels for Python. Arguments are numbers in the order of the structs of kernels.h: memory as its address (None:
   NULL), a (B, H, N, d) tensor as its address and four strides. decide.py and merge.py know what a tensor must be like. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct {
    PyObject *const *next;
    Py_ssize_t left;
} arguments_t;

static int64_t whole(arguments_t *from) {
    if (!from->left || PyErr_Occurred()) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "too few arguments");
        return 0;
    }
    PyObject *given = *from->next++;
    from->left--;
    return given == Py_None ? 0 : PyLong_AsLongLong(given);
}

static float number(arguments_t *from) {
    if (!from->left || PyErr_Occurred()) return (float)whole(from);
    from->left--;
    return (float)PyFloat_AsDouble(*from->next++);
}

static void *memory(arguments_t *from) { return (void *)(intptr_t)whole(from); }

static heads_t heads(arguments_t *from) {
    heads_t found;
    found.data = memory(from), found.image = whole(from), found.head = whole(from), found.token = whole(from);
    whole(from); /* the last one is 1 */
    return found;
}

static shape_t shape(arguments_t *from) {
    shape_t found;
    found.batch = whole(from), found.heads = whole(from), found.tokens = whole(from), found.width = whole(from);
    found.prefix = whole(from);
    return found;
}

static decided_t decided(arguments_t *from) {
    decided_t found;
    found.keep = memory(from), found.removed = memory(from), found.target = memory(from);
    return found;
}

static PyObject *result(int code) {
    if (code == NO_MEMORY) return PyErr_NoMemory();
    if (code == WRONG_PLAN) {
        PyErr_SetString(PyExc_IndexError, "the plan names a token or a target that does not exist: its method is wrong");
        return NULL;
    }
    if (code == TOO_MANY) {
        PyErr_SetString(PyExc_ValueError, "at most half of the patch tokens can go in one block");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Runs a kernel without the interpreter's lock, if all arguments were there and no more. */
#define RUN(call)                                                                            \
    do {                                                                                     \
        int code;                                                                            \
        if (PyErr_Occurred()) return NULL;                                                   \
        if (from.left) return PyErr_SetString(PyExc_TypeError, "too many arguments"), NULL; \
        Py_BEGIN_ALLOW_THREADS code = (call);                                                \
        Py_END_ALLOW_THREADS return result(code);                                            \
    } while (0)

static PyObject *py_tome(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    const heads_t key = heads(&from);
    const shape_t sizes = shape(&from);
    const int64_t r = whole(&from);
    const decided_t out = decided(&from);
    float *score = memory(&from);
    const int threads = (int)whole(&from);
    RUN(decide_tome(key, sizes, r, out, score, threads));
}

static PyObject *py_pitome(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    const heads_t key = heads(&from);
    const shape_t sizes = shape(&from);
    const int64_t r = whole(&from);
    const float margin = number(&from);
    const int pure = (int)whole(&from);
    const decided_t out = decided(&from);
    float *score = memory(&from);
    const int threads = (int)whole(&from);
    RUN(decide_pitome(key, sizes, r, margin, pure, out, score, threads));
}

static PyObject *py_catis(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    catis_t in;
    signals_t signals;
    in.features = memory(&from), in.channels = whole(&from), in.content_heads = whole(&from);
    in.query = heads(&from), in.key = heads(&from), in.content_key = heads(&from);
    in.bias = memory(&from), in.previous = memory(&from);
    in.r = whole(&from), in.evictions = whole(&from);
    in.uses_norm = (int)whole(&from), in.uses_cls = (int)whole(&from);
    in.scale = number(&from), in.gamma = number(&from), in.w_cls = number(&from), in.tau = number(&from);
    const shape_t sizes = shape(&from);
    const decided_t out = decided(&from);
    signals.attention = memory(&from), signals.norm = memory(&from);
    signals.context = memory(&from), signals.score = memory(&from);
    const int threads = (int)whole(&from);
    RUN(decide_catis(in, sizes, out, signals, threads));
}

static PyObject *py_received(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    attention_t in;
    in.query = heads(&from), in.key = heads(&from);
    in.bias = memory(&from), in.scale = number(&from);
    const shape_t sizes = shape(&from);
    float *received = memory(&from);
    const int threads = (int)whole(&from);
    RUN(attention_received(in, sizes, received, threads));
}

static PyObject *py_mctf(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    mctf_t in;
    in.batch = whole(&from), in.tokens = whole(&from), in.channels = whole(&from), in.prefix = whole(&from);
    in.residual = memory(&from), in.received = memory(&from), in.size = memory(&from);
    in.r1 = whole(&from), in.r2 = whole(&from);
    in.similar = (int)whole(&from);
    in.info = number(&from), in.small = number(&from);
    const decided_t out = decided(&from);
    float *weight = memory(&from);
    const int threads = (int)whole(&from);
    RUN(decide_mctf(in, out, weight, threads));
}

static PyObject *py_merge(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    arguments_t from = {args, count};
    merge_t in;
    in.batch = whole(&from), in.prefix = whole(&from), in.kept = whole(&from), in.gone = whole(&from);
    in.channels = whole(&from), in.blend = (int)whole(&from);
    in.keep = memory(&from), in.removed = memory(&from), in.target = memory(&from);
    in.x = memory(&from), in.size = memory(&from), in.weight = memory(&from), in.attention = memory(&from);
    in.next_x = memory(&from), in.next_size = memory(&from), in.log_size = memory(&from);
    in.next_attention = memory(&from);
    const int threads = (int)whole(&from);
    RUN(merge(in, threads));
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

static PyMethodDef methods[] = {
    {"decide_tome", (PyCFunction)(void (*)(void))py_tome, METH_FASTCALL, NULL},
    {"decide_pitome", (PyCFunction)(void (*)(void))py_pitome, METH_FASTCALL, NULL},
    {"decide_catis", (PyCFunction)(void (*)(void))py_catis, METH_FASTCALL, NULL},
    {"attention_received", (PyCFunction)(void (*)(void))py_received, METH_FASTCALL, NULL},
    {"decide_mctf", (PyCFunction)(void (*)(void))py_mctf, METH_FASTCALL, NULL},
    {"merge", (PyCFunction)(void (*)(void))py_merge, METH_FASTCALL, NULL},
    {"openmp", py_openmp, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_kernels(void) { return PyModuleDef_Init(&definition); }
