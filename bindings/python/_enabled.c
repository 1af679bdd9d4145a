/* Whether a tracer is attached to any of several probes, as a truth test: `if attached:` costs neither a look-up nor a
 * call, which is what a server's wrappers pay per request while no tracer is attached.
 *
 * Holds references to its probes, which hold their provider. The semaphore's address changes when the provider is
 * loaded and unloaded, so it is read from the probe each time. The object is immutable and cannot be part of a
 * reference cycle: any thread may test it, and Python's garbage collector need not track it. */
#include "_native.h"

struct enabled {
    PyVarObject ob_base;
    struct probe *probes[]; /* Py_SIZE of them */
};

static PyTypeObject *enabled_type;

static int enabled_bool(PyObject *self)
{
    const struct enabled *e = (struct enabled *)self;
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++)
        if (sonde_probe_enabled(e->probes[i]->native))
            return 1;
    return 0;
}

/* Returns the number of probes of an argument and optionally the probes; -1 with an exception. */
static Py_ssize_t probes_of(PyObject *argument, struct probe **ret_probes)
{
    if (Py_TYPE(argument) == probe_type) {
        if (ret_probes)
            *ret_probes = (struct probe *)Py_NewRef(argument);
        return 1;
    }
    if (Py_TYPE(argument) != enabled_type) {
        PyErr_Format(PyExc_TypeError, "Enabled takes probes, not %R", argument);
        return -1;
    }
    for (Py_ssize_t i = 0; ret_probes && i < Py_SIZE(argument); i++)
        ret_probes[i] = (struct probe *)Py_NewRef((PyObject *)((struct enabled *)argument)->probes[i]);
    return Py_SIZE(argument);
}

static PyObject *enabled_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    Py_ssize_t count = PyTuple_Size(arguments), total = 0;
    if (keywords && PyDict_Size(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "Enabled takes probes only");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t more = probes_of(PyTuple_GetItem(arguments, i), NULL);
        if (more < 0)
            return NULL;
        total += more;
    }
    struct enabled *e = (struct enabled *)PyType_GenericAlloc(type, total);
    for (Py_ssize_t i = 0, at = 0; e && i < count; i++)
        at += probes_of(PyTuple_GetItem(arguments, i), e->probes + at);
    return (PyObject *)e;
}

static void enabled_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++)
        Py_XDECREF((PyObject *)((struct enabled *)self)->probes[i]);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_new, enabled_new},
    {Py_tp_dealloc, enabled_dealloc},
    {Py_nb_bool, enabled_bool},
    {Py_tp_doc,
     "Enabled(*probes): true while a tracer is attached to any of them. An Enabled counts as all of its probes."},
    {0, NULL},
};

static PyType_Spec spec = {"sonde._native.Enabled", sizeof(struct enabled), sizeof(struct probe *), Py_TPFLAGS_DEFAULT,
                           slots};

int enabled_add_types(PyObject *module)
{
    enabled_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return enabled_type ? PyModule_AddObject(module, "Enabled", Py_NewRef((PyObject *)enabled_type)) : -1;
}
