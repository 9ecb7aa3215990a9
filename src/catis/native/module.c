/* The kernels for Python: each is called with the number of threads, and its fields by name (kernels.h). A kernel returns
   True, or False for "not mine": a tensor that only PyTorch's own operations understand. */
#include "fields.h"

#ifdef _OPENMP
#include <omp.h>
#endif

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

/* What must hold between the fields of a kernel. */
static int check(const call_t *in, int kernel) {
    const int64_t r = in->n.gone;
    if (kernel & CHOOSE && 2 * r > in->n.patches) return fails("at most half of the patch tokens can go in one block");
    if (kernel & CATIS && (in->evictions < 0 || in->evictions > r)) return fails("more tokens to evict than go");
    if (in->uses_cls && !in->attention) return fails("the score needs A_cls, and there is no memory for it");
    if (kernel & MCTF && (in->first < 0 || in->first > r)) return fails("more tokens in one direction than go");
    if (kernel & MERGE && (in->blend < BY_SIZE || in->blend > MLERP)) return fails("there is no such blend");
    if (in->blend == BY_WEIGHT && !in->weight) return fails("there are no weights to blend by");
    if (!in->next_size != !in->log_size) return fails("sizes and their logarithms go together");
    return in->next_attention && !in->attention ? fails("there is no A_cls to carry") : DONE;
}

static PyObject *result(int code) {
    if (code == NO_MEMORY) return PyErr_NoMemory();
    if (code == WRONG_PLAN) {
        PyErr_SetString(PyExc_IndexError, "the plan names a token or a target that does not exist: its method is wrong");
        return NULL;
    }
    Py_RETURN_TRUE;
}

typedef int kernel_t(const call_t *in, int threads);

/* A kernel runs without the interpreter's lock. */
static PyObject *call(kernel_t *run, int kernel, PyObject *const *args, Py_ssize_t given, PyObject *names) {
    call_t in;
    if (given != 1) return PyErr_SetString(PyExc_TypeError, "expected the number of threads, and the rest by name"), NULL;
    const int threads = (int)PyLong_AsLong(args[0]);
    int code = PyErr_Occurred() ? FAILED : fill(&in, kernel, args + 1, names);
    if (!code) code = relate(&in.n, in.prefix);
    if (!code) code = check(&in, kernel);
    if (code == FAILED) return NULL;
    if (code == NOT_MINE) Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS code = run(&in, threads);
    Py_END_ALLOW_THREADS return result(code);
}

#define KERNELS(KERNEL)                  \
    KERNEL(decide_tome, TOME)            \
    KERNEL(decide_pitome, PITOME)        \
    KERNEL(decide_catis, CATIS)          \
    KERNEL(attention_received, RECEIVED) \
    KERNEL(decide_mctf, MCTF)            \
    KERNEL(merge, MERGE)

#define EXPOSE(name, kernel)                                                                               \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) { \
        return (void)self, call(name, kernel, args, given, names);                                        \
    }
KERNELS(EXPOSE)

/* use(Tensor, float32, int64, strided) */
static PyObject *py_use(PyObject *self, PyObject *args) {
    PyObject *tensor, *single, *whole, *dense;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &tensor, &single, &whole, &dense)) return NULL;
    know_torch(tensor, single, whole, dense);
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

#define METHOD(name, kernel) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL | METH_KEYWORDS, NULL},
static PyMethodDef methods[] = {
    KERNELS(METHOD)
    {"use", py_use, METH_VARARGS, NULL},
    {"openmp", py_openmp, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module) { return (void)module, know_names(); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
