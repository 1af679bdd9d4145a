/* Shared by the files of sonde._native: the limited API, so that one binary serves CPython 3.9 and later, and the
 * functions that add types to the module. */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdint.h>

#include <sonde/probe.h>
#include <sonde/trace.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080 /* in 3.9's ABI, but in the limited API's headers only since 3.10 */
#endif

#if PY_VERSION_HEX < 0x030a0000 /* not in 3.9's headers */
static inline PyObject *Py_NewRef(PyObject *object)
{
    Py_INCREF(object);
    return object;
}
#endif

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

/* These types implement tp_traverse, so that the garbage collector can free a manager whose attributes contain its
 * own models or requests. They need no tp_clear: every such cycle contains a Python object, at least the manager,
 * that can be cleared. (A sonde._native.Working is in no cycle that outlives its block.) */
struct model {
    PyObject ob_base;
    struct sonde_trace_model *native;
    PyObject *owner; /* the manager, kept alive so that traces are written */
};

struct trace {
    PyObject ob_base;
    struct sonde_trace *native; /* NULL: not traced, or ended */
    uint64_t id;
    PyObject *owner;                    /* as in struct model; NULL: not traced */
    PyObject *traceparent, *tracestate; /* bytes as received; NULL: none */
};

struct probe {
    PyObject ob_base;
    struct sonde_probe *native;
    PyObject *provider;                           /* kept alive by its probes */
    char takes_string[SONDE_PROBE_ARGUMENTS_MAX]; /* per argument, by the declaration */
};

extern PyTypeObject *probe_type, *trace_type;

/* Each adds its types to the module; -1 with an exception. */
int enabled_add_types(PyObject *module);       /* _enabled.c: Enabled */
int trace_add_types(PyObject *module);         /* _trace.c: Model, Trace */
int trace_manager_add_types(PyObject *module); /* _trace_manager.c: Manager */
int generation_add_types(PyObject *module);    /* _generation.c: Generation */
int working_add_types(PyObject *module);       /* _working.c */

/* Implement Model.generation and Trace.working. */
PyObject *generation_begin(PyObject *model, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *working_object(PyObject *trace, PyObject *unused);

/* Creates a sonde._native.Model, which keeps `owner` alive; NULL with an exception. */
PyObject *trace_model_object(struct sonde_trace_manager *manager, const char *name, long long version, PyObject *owner);

/* Raises the exception for an error of libsonde; returns NULL. */
PyObject *native_fail(int error, const char *what);

/* Ends a method: exceptions of recording are reported and not raised in the request, except those that end programs
 * (KeyboardInterrupt). */
PyObject *native_done(PyObject *self, PyObject *result);

/* Assigns positional and keyword arguments by name; missing optional ones and None become NULL. 0, or -1 with an
 * exception. */
int native_take(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, const char *const *names,
                Py_ssize_t required, Py_ssize_t max, PyObject **ret_values);

/* A text as bytes, including NUL and bytes that were not UTF-8 (surrogateescape). */
PyObject *native_bytes(PyObject *object);
