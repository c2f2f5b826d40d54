/* A library of kernels: the functions of numba that its objects call, and a module of their entries.

   build.py writes table.h, a line for each entry: the key that the package looks it up by, the types of its arguments
   (runtime/library.py, guard_of), the function that numba made for Python, and the one for C, if there is one.

   An entry does not check its arguments' types. So a guard checks them first. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>
#include <stdlib.h>
#include <string.h>

/* --- what numba's objects call --------------------------------------------------------------------------- */

typedef struct {
    void *meminfo;
    PyObject *parent;
    npy_intp items, itemsize;
    void *data;
    npy_intp shape_and_strides[];
} Array;

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int numba_adapt_ndarray(PyObject *object, Array *to) {
    if (!PyArray_Check(object)) return -1;
    PyArrayObject *array = (PyArrayObject *)object;
    int n = PyArray_NDIM(array);
    to->meminfo = 0;
    to->parent = object;
    to->data = PyArray_DATA(array);
    to->itemsize = PyArray_ITEMSIZE(array);
    to->items = 1;
    for (int i = 0; i < n; i++) {
        to->items *= to->shape_and_strides[i] = PyArray_DIM(array, i);
        to->shape_and_strides[n + i] = PyArray_STRIDE(array, i);
    }
    return 0;
}

HIDDEN PyObject *numba_unpickle(const char *data, int n, const char *hash) {
    PyObject *pickle = PyImport_ImportModule("pickle"), *found;
    if (!pickle) return 0;
    found = PyObject_CallMethod(pickle, "loads", "y#", data, (Py_ssize_t)n);
    Py_DecRef(pickle);
    return found;
}

HIDDEN PyObject *numba_runtime_build_excinfo_struct(PyObject *structure, PyObject *arguments) {
    PyErr_SetString(PyExc_RuntimeError, "a kernel raises with values, which no shipped kernel does");
    return 0;
}

HIDDEN int numba_do_raise(PyObject *raised) { /* (class, arguments, place) */
    PyObject *class = raised, *value = 0;
    if (PyTuple_Check(raised)) {
        class = PyTuple_GetItem(raised, 0);
        value = PyTuple_GetItem(raised, 1);
    }
    PyErr_SetObject(class, value == Py_None ? 0 : value);
    Py_DecRef(raised);
    return 0;
}

HIDDEN void numba_gil_ensure(PyGILState_STATE *state) { *state = PyGILState_Ensure(); }
HIDDEN void numba_gil_release(PyGILState_STATE *state) { PyGILState_Release(*state); }

/* For contiguous arrays only: kernels reshape no others. */
HIDDEN int numba_attempt_nocopy_reshape(npy_intp nd, const npy_intp *dims, const npy_intp *strides, npy_intp newnd,
                                        const npy_intp *newdims, npy_intp *newstrides, npy_intp itemsize, int order) {
    npy_intp step = itemsize;
    for (npy_intp i = nd - 1; i >= 0; i--) {
        if (dims[i] != 1 && strides[i] != step) return 0;
        step *= dims[i];
    }
    step = itemsize;
    for (npy_intp i = newnd - 1; i >= 0; i--) {
        newstrides[i] = step;
        step *= newdims[i];
    }
    return 1;
}

/* Arrays that kernels make, with a reference count, in the layout of numba's nrt.h. */
typedef struct {
    size_t references;
    void (*destroy)(void *, size_t, void *);
    void *info, *data;
    size_t size;
    void *allocator;
} MemInfo;

static void drop(void *data, size_t size, void *object) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DecRef(object);
    PyGILState_Release(state);
}

static void free_items(void *data, size_t size, void *destroy) {
    if (destroy) ((void (*)(void *, size_t, void *))destroy)(data, size, 0);
    free(data);
}

HIDDEN void *NRT_MemInfo_new_varsize_dtor(size_t size, void *destroy) {
    MemInfo *info = malloc(sizeof *info);
    void *data = malloc(size);
    if (!info || !data) {
        free(info);
        free(data);
        return 0;
    }
    *info = (MemInfo){1, free_items, destroy, data, size, 0};
    return info;
}

HIDDEN void NRT_Free(void *data) { free(data); }

HIDDEN void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    MemInfo *info = malloc(sizeof *info + size + align);
    if (info) {
        size_t data = (size_t)(info + 1) + align - 1;
        *info = (MemInfo){1, 0, 0, (void *)(data - data % align), size, 0};
    }
    return info;
}

HIDDEN void NRT_MemInfo_call_dtor(MemInfo *info) {
    if (info->destroy) info->destroy(info->data, info->size, info->info);
    free(info);
}

HIDDEN int NRT_adapt_ndarray_from_python(PyObject *object, Array *to) {
    if (numba_adapt_ndarray(object, to)) return -1;
    MemInfo *info = malloc(sizeof *info);
    if (!info) return -1;
    Py_IncRef(object);
    *info = (MemInfo){1, drop, object, to->data, 0, 0};
    to->meminfo = info;
    return 0;
}

/* --- the guard ------------------------------------------------------------------------------------------- */

struct entry {
    const char *key, *guard;
    PyCFunctionWithKeywords call;
    void *address;
};

#include "table.h"

static int item_of(char letter) {
    return letter == 'l' ? NPY_INT64 : letter == 'h' ? NPY_INT32 : letter == 'B' ? NPY_UINT8 : NPY_BOOL;
}

/* Return whether an array has items of this type. np.setdiff1d returns long long, which is int64, too. */
static int is_item(PyArrayObject *array, char letter) {
    int wanted = item_of(letter), found = PyArray_TYPE(array);
    if (!PyArray_ISNOTSWAPPED(array)) return 0;
    if (found == wanted) return 1;
    return wanted == NPY_INT64 && (found == NPY_LONG || found == NPY_LONGLONG) && PyArray_ITEMSIZE(array) == 8;
}

/* Return whether an object has the guard's next type; advance the guard past that type. */
static int fits(const char **guard, PyObject *object) {
    char kind = *(*guard)++;
    if (kind == 'i') return PyLong_Check(object) || (PyIndex_Check(object) && !PyArray_Check(object));
    if (kind == '?') return PyBool_Check(object) || PyLong_Check(object) || PyArray_IsScalar(object, Bool);
    if (kind == '(') {
        Py_ssize_t i = 0, n = PyTuple_Check(object) ? PyTuple_Size(object) : -1;
        for (; **guard != ')'; i++)
            if (i >= n || !fits(guard, PyTuple_GetItem(object, i))) return 0;
        ++*guard;
        return i == n;
    }
    const char *wanted = *guard;
    *guard += 3;
    if (!PyArray_Check(object)) return 0;
    PyArrayObject *array = (PyArrayObject *)object;
    return is_item(array, wanted[0]) && PyArray_NDIM(array) == wanted[1] - '0' && PyArray_IS_C_CONTIGUOUS(array) &&
           PyArray_ISALIGNED(array) && (wanted[2] != 'w' || PyArray_ISWRITEABLE(array));
}

static PyObject *call(PyObject *capsule, PyObject *arguments) {
    struct entry *entry = PyCapsule_GetPointer(capsule, "entry");
    const char *guard = entry->guard;
    Py_ssize_t i = 0, n = PyTuple_Size(arguments);
    for (; *guard; i++)
        if (i >= n || !fits(&guard, PyTuple_GetItem(arguments, i)))
            return PyErr_Format(PyExc_TypeError, "kernel %s: argument %zd is of another type", entry->key, i);
    if (i != n) return PyErr_Format(PyExc_TypeError, "kernel %s is given %zd arguments", entry->key, n);
    return entry->call(0, arguments, 0);
}

/* --- the module ------------------------------------------------------------------------------------------ */

static PyMethodDef definition = {"kernel", call, METH_VARARGS, 0};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", 0, -1, 0};

PyMODINIT_FUNC PyInit__kernels(void) {
    import_array();
    PyObject *made = PyModule_Create(&module), *functions = PyDict_New(), *addresses = PyDict_New();
    if (!made || !functions || !addresses) return 0;
    for (struct entry *entry = table; entry->key; entry++) {
        PyObject *capsule = PyCapsule_New(entry, "entry", 0), *function = PyCFunction_NewEx(&definition, capsule, 0);
        if (!function || PyDict_SetItemString(functions, entry->key, function)) return 0;
        if (entry->address) PyDict_SetItemString(addresses, entry->key, PyLong_FromVoidPtr(entry->address));
    }
    PyModule_AddStringConstant(made, "sources", sources);
    PyModule_AddObject(made, "functions", functions);
    PyModule_AddObject(made, "addresses", addresses);
    return made;
}
