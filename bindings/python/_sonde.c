/* USDT probes for Python: the extension sonde._native with libsonde compiled in, and its types Provider and Probe.
 *
 * While no tracer is attached, Probe.fire only tests the semaphore. Its arguments have been evaluated by then, so
 * expensive ones are passed as callables, or guarded by `if probe.enabled`. While a tracer is attached no error here
 * may affect the program: an argument that fails is reported as unraisable and fired as 0. */
#include "_native.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

struct provider {
    PyObject ob_base;
    struct sonde_provider *native;
};

PyTypeObject *probe_type;

/* --- arguments ----------------------------------------------------------------------------------- */

/* A NUL-terminated string, converted by `str` if needed; *ret_keep owns it. */
static struct sonde_value value_of_string(PyObject *object, PyObject **ret_keep)
{
    PyObject *text = PyUnicode_Check(object) || PyBytes_Check(object) ? Py_NewRef(object) : PyObject_Str(object);
    if (text && PyUnicode_Check(text)) {
        PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
        Py_DECREF(text);
        text = bytes;
    }
    *ret_keep = text;
    return sonde_value_of_pointer_(text ? PyBytes_AsString(text) : NULL);
}

/* An integer keeps its 64 bits, signed or unsigned. */
static struct sonde_value value_of_number(PyObject *object)
{
    if (PyFloat_Check(object))
        return sonde_value_of_double_(PyFloat_AsDouble(object));
    PyObject *number = PyNumber_Index(object);
    if (!number) {
        PyErr_Clear();
        return sonde_value_of_double_(PyFloat_AsDouble(object));
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    struct sonde_value result =
        overflow > 0 ? sonde_value_of_unsigned_(PyLong_AsUnsignedLongLong(number)) : sonde_value_of_signed_(value);
    if (overflow < 0)
        PyErr_SetString(PyExc_OverflowError, "a probe's argument has at most 64 bits");
    Py_DECREF(number);
    return result;
}

/* Converts an argument: None is 0 or no string; a callable is called now. */
static struct sonde_value value_of(PyObject *object, int takes_string, PyObject **ret_keep)
{
    struct sonde_value value = sonde_value_of_signed_(0);
    PyObject *computed = PyCallable_Check(object) ? PyObject_CallObject(object, NULL) : Py_NewRef(object);
    if (computed && computed != Py_None)
        value = takes_string ? value_of_string(computed, ret_keep) : value_of_number(computed);
    Py_XDECREF(computed);
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(object);
        value = sonde_value_of_signed_(0);
    }
    return value;
}

/* --- probes -------------------------------------------------------------------------------------- */

static void fire(struct probe *probe, PyObject *const *arguments, Py_ssize_t count)
{
    struct sonde_value values[SONDE_PROBE_ARGUMENTS_MAX] = {{0, 0}};
    PyObject *kept[SONDE_PROBE_ARGUMENTS_MAX] = {NULL};
    if (count > SONDE_PROBE_ARGUMENTS_MAX)
        count = SONDE_PROBE_ARGUMENTS_MAX;
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = value_of(arguments[i], probe->takes_string[i], &kept[i]);
    sonde_probe_fire_values(probe->native, (unsigned)count, values);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(kept[i]);
}

static PyObject *probe_fire(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    struct probe *probe = (struct probe *)self;
    if (sonde_probe_enabled(probe->native))
        fire(probe, arguments, count);
    return Py_NewRef(Py_None);
}

static PyObject *probe_enabled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(sonde_probe_enabled(((struct probe *)self)->native));
}

static void probe_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((struct probe *)self)->provider);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *probe_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)type, (void)arguments, (void)keywords;
    PyErr_SetString(PyExc_TypeError, "probes are created by Provider.add");
    return NULL;
}

static PyMethodDef probe_methods[] = {
    {"fire", (PyCFunction)(void (*)(void))probe_fire, METH_FASTCALL,
     "fire(*arguments): fires if a tracer is attached. Callable arguments are called only then."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef probe_members[] = {
    {"enabled", probe_enabled, NULL, "Whether a tracer is attached.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot probe_slots[] = {
    {Py_tp_new, probe_new},
    {Py_tp_dealloc, probe_dealloc},
    {Py_tp_methods, probe_methods},
    {Py_tp_getset, probe_members},
    {Py_tp_doc, "A USDT probe; created by Provider.add."},
    {0, NULL},
};

static PyType_Spec probe_spec = {"sonde._native.Probe", sizeof(struct probe), 0, Py_TPFLAGS_DEFAULT, probe_slots};

/* --- providers ----------------------------------------------------------------------------------- */

static void warn(void *context, const char *text)
{
    (void)context;
    if (!PyErr_Occurred() && PyErr_WarnEx(PyExc_RuntimeWarning, text, 1) < 0)
        PyErr_WriteUnraisable(NULL); /* warnings are errors here, but the program continues without probes */
}

static int provider_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "directory", NULL};
    struct provider *provider = (struct provider *)self;
    const char *name, *directory = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|z", names, &name, &directory))
        return -1;
    if (provider->native) {
        PyErr_SetString(PyExc_RuntimeError, "a provider cannot be initialised twice");
        return -1;
    }
    int r = sonde_provider_new(name, &provider->native);
    if (r == 0) {
        sonde_provider_on_warning(provider->native, warn, NULL);
        r = sonde_provider_set_directory(provider->native, directory);
    }
    if (r < 0)
        native_fail(r, name);
    return r < 0 ? -1 : 0;
}

static struct sonde_provider *native_of(PyObject *self)
{
    struct sonde_provider *native = ((struct provider *)self)->native;
    if (!native)
        PyErr_SetString(PyExc_RuntimeError, "the provider was not initialised");
    return native;
}

/* Finds the string arguments in a valid declaration. */
static void find_strings(struct probe *probe, const char *declaration)
{
    for (int i = 0; i < SONDE_PROBE_ARGUMENTS_MAX && *declaration; i++) {
        declaration += strspn(declaration, " \t\n,");
        probe->takes_string[i] = strncmp(declaration, "str", 3) == 0;
        declaration += strcspn(declaration, ",");
    }
}

static PyObject *provider_add(PyObject *self, PyObject *arguments)
{
    struct sonde_provider *provider = native_of(self);
    struct sonde_probe *native;
    const char *name, *declaration = "";
    if (!provider || !PyArg_ParseTuple(arguments, "s|s", &name, &declaration))
        return NULL;
    int r = sonde_probe_add(provider, name, declaration, &native);
    if (r < 0)
        return native_fail(r, name);
    struct probe *probe = PyObject_New(struct probe, probe_type);
    if (!probe)
        return NULL;
    memset(probe->takes_string, 0, sizeof(probe->takes_string));
    probe->native = native;
    probe->provider = Py_NewRef(self);
    find_strings(probe, declaration);
    return (PyObject *)probe;
}

static PyObject *provider_load(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct sonde_provider *provider = native_of(self);
    return provider ? PyBool_FromLong(sonde_provider_load(provider) == 0) : NULL;
}

static PyObject *provider_unload(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct sonde_provider *provider = native_of(self);
    if (!provider)
        return NULL;
    sonde_provider_unload(provider);
    return Py_NewRef(Py_None);
}

static void provider_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    sonde_provider_free(((struct provider *)self)->native);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef provider_methods[] = {
    {"add", provider_add, METH_VARARGS,
     "add(name, arguments='') -> Probe, such as add('enqueued', 'str model, u32 length'). ValueError: an invalid name or type."},
    {"load", provider_load, METH_NOARGS,
     "load() -> bool: makes new probes attachable. False after a warning: probes are inactive."},
    {"unload", provider_unload, METH_NOARGS, "unload(): removes all probes; tracers are detached."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot provider_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, provider_init},
    {Py_tp_dealloc, provider_dealloc},
    {Py_tp_methods, provider_methods},
    {Py_tp_doc,
     "Provider(name, directory=None): a set of USDT probes; with a directory, its ELF objects are files there."},
    {0, NULL},
};

static PyType_Spec provider_spec = {"sonde._native.Provider", sizeof(struct provider), 0, Py_TPFLAGS_DEFAULT,
                                    provider_slots};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "sonde._native", "USDT probes and request traces.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *self = PyModule_Create(&module), *provider_type = PyType_FromSpec(&provider_spec);
    probe_type = (PyTypeObject *)PyType_FromSpec(&probe_spec);
    if (!self || !provider_type || !probe_type || PyModule_AddObject(self, "Provider", Py_NewRef(provider_type)) < 0 ||
        PyModule_AddObject(self, "Probe", Py_NewRef((PyObject *)probe_type)) < 0 || enabled_add_types(self) < 0 ||
        trace_add_types(self) < 0 || trace_manager_add_types(self) < 0)
        return NULL;
    return self;
}
