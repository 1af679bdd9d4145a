/* What the files of sonde._native share: the limited API, by which one binary is for CPython 3.9 and later,
 * and what they add to the module. */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdint.h>

#include <sonde/probe.h>
#include <sonde/trace.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080 /* is in 3.9's ABI, but only since 3.10 in the headers of the limited API */
#endif

#if PY_VERSION_HEX < 0x030a0000 /* not in 3.9's headers */
static inline PyObject *Py_NewRef(PyObject *object)
{
    Py_INCREF(object);
    return object;
}
#endif

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

/* Python's collector is told what an object holds, so that a manager goes whose models or requests lie in its own
 * attributes. None of them has a tp_clear: each such circle has a Python object in it, the manager at least,
 * that can be emptied, and what C has stays whole until it goes. (A sonde._native.Working is in no circle that
 * outlives its block.) */
struct model {
    PyObject ob_base;
    struct sonde_trace_model *native;
    PyObject *owner; /* the manager: what is traced shall be written */
};

struct trace {
    PyObject ob_base;
    struct sonde_trace *native; /* NULL: not traced, or ended */
    uint64_t id;
    PyObject *owner;                    /* as the model's; NULL: not traced */
    PyObject *traceparent, *tracestate; /* bytes, as they came; NULL: none */
};

struct probe {
    PyObject ob_base;
    struct sonde_probe *native;
    PyObject *provider;                           /* lives as long as its probes */
    char takes_string[SONDE_PROBE_ARGUMENTS_MAX]; /* by the declaration */
};

extern PyTypeObject *probe_type, *trace_type;

/* Each adds its types to the module; -1 with an exception. */
int enabled_add_types(PyObject *module);       /* _enabled.c: Enabled */
int trace_add_types(PyObject *module);         /* _trace.c: Model, Trace */
int trace_manager_add_types(PyObject *module); /* _trace_manager.c: Manager */
int generation_add_types(PyObject *module);    /* _generation.c: Generation */
int working_add_types(PyObject *module);       /* _working.c */

/* Model.generation and Trace.working. */
PyObject *generation_begin(PyObject *model, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *working_object(PyObject *trace, PyObject *unused);

/* A sonde._native.Model, which keeps `owner` alive; NULL with an exception. */
PyObject *trace_model_object(struct sonde_trace_manager *manager, const char *name, long long version,
                             PyObject *owner);

/* The exception for an error of libsonde; NULL, for callers to return. */
PyObject *native_fail(int error, const char *what);

/* The end of a method: an exception of what was to be recorded is not the request's; what ends programs
 * (KeyboardInterrupt) is. */
PyObject *native_done(PyObject *self, PyObject *result);

/* Positional and keyword arguments by their names; what is not required and None is NULL. 0, or -1 with an
 * exception. */
int native_take(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, const char *const *names,
                Py_ssize_t required, Py_ssize_t max, PyObject **ret_values);

/* The bytes of a text, whatever it has in it: NUL, and what came from bytes that were not UTF-8. */
PyObject *native_bytes(PyObject *object);
