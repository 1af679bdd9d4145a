/* The tracing of a server for Python: sonde._native.Manager, wrapped by sonde.trace.Manager. Calls that wait for a
 * disk or a receiver release the GIL, because the library's thread needs it to report errors. The Python wrapper
 * serialises flush and close. */
#include "_native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sonde/trace.h>

struct manager {
    PyObject ob_base;
    struct sonde_trace_manager *native; /* NULL: closed, or not initialised */
    PyObject *report;                   /* called with an errno and a message */
};

static PyObject *refused_type;

static struct sonde_trace_manager *native_of(PyObject *self)
{
    struct sonde_trace_manager *native = ((struct manager *)self)->native;
    if (!native)
        PyErr_SetString(PyExc_RuntimeError, "the manager is closed");
    return native;
}

/* The manager whose error callback runs on this thread; the callback may garbage-collect that manager. */
static __thread struct sonde_trace_manager *reporting;

/* Runs on a thread of the library, or within a call of it, with or without the GIL. */
static void on_error(void *argument, int error, const char *message)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *report = ((struct manager *)argument)->report;
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    PyObject *number = text ? PyLong_FromLong(error) : NULL;
    struct sonde_trace_manager *outer = reporting;
    reporting = ((struct manager *)argument)->native;
    PyObject *result = number ? PyObject_CallFunctionObjArgs(report, number, text, NULL) : NULL;
    reporting = outer;
    if (!result)
        PyErr_WriteUnraisable(report);
    Py_XDECREF(result);
    Py_XDECREF(number);
    Py_XDECREF(text);
    PyGILState_Release(state);
}

/* --- creation and closing-------------------------------------------------------------------- */

static PyObject *fail_because(int error, const char *why)
{
    if (error == -ENOMEM)
        return PyErr_NoMemory();
    if (error == -EINVAL || error == -ENOENT)
        return PyErr_Format(PyExc_ValueError, "%s", why);
    PyObject *text = PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
    PyObject *exception = text ? PyObject_CallFunction(PyExc_OSError, "iO", -error, text) : NULL;
    if (exception)
        PyErr_SetObject(PyExc_OSError, exception);
    Py_XDECREF(exception);
    Py_XDECREF(text);
    return NULL;
}

/* `options`: pairs of command line option and value. */
static int configure(struct sonde_trace_config *config, PyObject *options)
{
    char why[SONDE_TRACE_WHY_SIZE] = "not an option of traces";
    for (Py_ssize_t i = 0, count = PyList_Size(options); i < count; i++) {
        const char *option, *value;
        PyObject *pair = PyList_GetItem(options, i);
        if (!pair || !PyArg_ParseTuple(pair, "ss", &option, &value))
            return -1;
        int r = sonde_trace_config_set(config, option, value, why, sizeof(why));
        if (r < 0) {
            fail_because(r, why);
            return -1;
        }
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int create_native(struct manager *m, const struct sonde_trace_config *config,
                         const struct sonde_trace_options *options)
{
    char why[SONDE_TRACE_WHY_SIZE] = "traces";
    struct sonde_trace_manager *native = NULL;
    int r;
    Py_BEGIN_ALLOW_THREADS r = sonde_trace_manager_new(config, options, &native, why, sizeof(why));
    Py_END_ALLOW_THREADS if (r < 0) fail_because(r, why);
    m->native = native;
    return r < 0 ? -1 : 0;
}

static int manager_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"options",           "report", "queue_traces_max", "queue_bytes_max", "tensor_bytes_max",
                            "request_bytes_max", NULL};
    struct manager *m = (struct manager *)self;
    struct sonde_trace_options o = {.size = sizeof(o), .on_error = on_error, .argument = m};
    unsigned queue_traces_max = 0;
    unsigned long long queue_bytes_max = 0, tensor_bytes_max = 0, request_bytes_max = 0;
    PyObject *options, *report;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O|IKKK", names, &PyList_Type, &options, &report,
                                     &queue_traces_max, &queue_bytes_max, &tensor_bytes_max, &request_bytes_max))
        return -1;
    if (m->report) {
        PyErr_SetString(PyExc_RuntimeError, "a manager cannot be initialised twice");
        return -1;
    }
    o.queue_traces_max = queue_traces_max;
    o.queue_bytes_max = queue_bytes_max;
    o.tensor_bytes_max = tensor_bytes_max;
    o.request_bytes_max = request_bytes_max;
    m->report = Py_NewRef(report);
    struct sonde_trace_config *config = NULL;
    int r = sonde_trace_config_new(&config);
    if (r < 0) {
        fail_because(r, "");
        return -1;
    }
    r = configure(config, options) == 0 ? create_native(m, config, &o) : -1;
    sonde_trace_config_free(config);
    return r;
}

static void close_native(struct manager *m)
{
    struct sonde_trace_manager *native = m->native;
    m->native = NULL;
    Py_BEGIN_ALLOW_THREADS sonde_trace_manager_free(native);
    Py_END_ALLOW_THREADS
}

static PyObject *manager_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    close_native((struct manager *)self);
    return Py_NewRef(Py_None);
}

static int dealloc_later(void *self)
{
    Py_DECREF((PyObject *)self);
    return 0;
}

static int manager_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct manager *)self)->report);
    return 0;
}

/* Last reference gone; errors reported while closing still find `report`. On the library's own thread, which
 * cannot wait for itself, the deallocation is postponed: the object is revived until the interpreter's main thread
 * frees it. */
static void manager_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct sonde_trace_manager *native = ((struct manager *)self)->native;
    PyObject_GC_UnTrack(self);
    if (native && native == reporting) {
        Py_INCREF(self);
        (void)Py_AddPendingCall(dealloc_later, self); /* if the queue of pending calls is full, it is leaked */
        return;
    }
    close_native((struct manager *)self);
    Py_XDECREF(((struct manager *)self)->report);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* --- models, counts -------------------------------------------------------------------------- */

static PyObject *manager_model(PyObject *self, PyObject *arguments)
{
    const char *name;
    long long version;
    PyObject *owner;
    struct sonde_trace_manager *native = native_of(self);
    if (!native || !PyArg_ParseTuple(arguments, "sLO", &name, &version, &owner))
        return NULL;
    return trace_model_object(native, name, version, owner);
}

static PyObject *manager_flush(PyObject *self, PyObject *arguments)
{
    unsigned timeout_ms;
    struct sonde_trace_manager *native = native_of(self);
    if (!native || !PyArg_ParseTuple(arguments, "I", &timeout_ms))
        return NULL;
    int r;
    Py_BEGIN_ALLOW_THREADS r = sonde_trace_manager_flush(native, timeout_ms);
    Py_END_ALLOW_THREADS return PyBool_FromLong(r == 0);
}

static PyObject *manager_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct sonde_trace_stats s;
    struct sonde_trace_manager *native = native_of(self);
    if (!native)
        return NULL;
    sonde_trace_manager_stats(native, &s, sizeof(s));
#define COUNT(name)                                                                                                    \
    {                                                                                                                  \
        #name, &s.name                                                                                                 \
    }
    const struct {
        const char *name;
        const uint64_t *count;
    } all[] = {
        COUNT(sampled),        COUNT(written),         COUNT(dropped_queue),          COUNT(dropped_write),
        COUNT(write_errors),   COUNT(records_dropped), COUNT(tensors_malformed),      COUNT(tensors_too_large),
        COUNT(spans_rejected), COUNT(generations),     COUNT(generations_overflowed), COUNT(metrics_sent),
        COUNT(metrics_lost),   COUNT(metric_errors),   COUNT(points_rejected),
    };
#undef COUNT
    PyObject *counts = PyDict_New();
    for (size_t i = 0; counts && i < sizeof(all) / sizeof(all[0]); i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(*all[i].count);
        if (!count || PyDict_SetItemString(counts, all[i].name, count) < 0)
            Py_CLEAR(counts);
        Py_XDECREF(count);
    }
    return counts;
}

static PyObject *manager_metrics(PyObject *self, PyObject *unused)
{
    (void)unused;
    char *text;
    struct sonde_trace_manager *native = native_of(self);
    int r = native ? sonde_trace_metrics(native, &text) : 0;
    if (!native || r < 0)
        return native ? native_fail(r, "metrics") : NULL;
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    sonde_trace_free(text);
    return result;
}

/* --- the trace protocol ---------------------------------------------------------------------- */

static PyObject *manager_http(PyObject *self, PyObject *arguments)
{
    const char *method, *path, *body;
    Py_ssize_t size;
    unsigned status;
    char *answer;
    struct sonde_trace_manager *native = native_of(self);
    if (!native || !PyArg_ParseTuple(arguments, "sss#", &method, &path, &body, &size))
        return NULL;
    int r = sonde_trace_http(native, method, path, body, (size_t)size, &status, &answer);
    if (r == -ENOENT)
        return Py_NewRef(Py_None);
    if (r < 0)
        return fail_because(r, path);
    PyObject *result = Py_BuildValue("Iy", status, answer);
    sonde_trace_free(answer);
    return result;
}

/* The map of a gRPC call in C. Its strings belong to Python objects held by `keep`. */
struct map {
    struct sonde_trace_setting *settings;
    size_t count;
};

static void map_free(struct map *map)
{
    for (size_t i = 0; i < map->count; i++)
        free((void *)map->settings[i].values);
    free(map->settings);
}

/* A C string that is valid as long as `keep`, a list. */
static const char *kept_text(PyObject *keep, PyObject *text)
{
    PyObject *bytes = PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    if (!bytes && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "a str, not %R", (PyObject *)Py_TYPE(text));
    int r = bytes ? PyList_Append(keep, bytes) : -1;
    Py_XDECREF(bytes);
    return r < 0 ? NULL : PyBytes_AsString(bytes);
}

static int put_setting(struct map *map, PyObject *keep, PyObject *name, PyObject *values)
{
    Py_ssize_t count = PyList_Size(values);
    const char **texts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof(*texts));
    if (!texts)
        return -1;
    struct sonde_trace_setting *s = &map->settings[map->count++];
    *s = (struct sonde_trace_setting){.name = kept_text(keep, name), .values = texts, .value_count = (size_t)count};
    for (Py_ssize_t i = 0; s->name && i < count; i++)
        if (!(texts[i] = kept_text(keep, PyList_GetItem(values, i))))
            return -1;
    return s->name ? 0 : -1;
}

static int read_map(PyObject *dict, PyObject *keep, struct map *ret_map)
{
    PyObject *name, *values;
    Py_ssize_t at = 0;
    ret_map->settings = calloc((size_t)PyDict_Size(dict) + 1, sizeof(*ret_map->settings));
    if (!ret_map->settings) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &at, &name, &values))
        if (put_setting(ret_map, keep, name, values) < 0) {
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            return -1;
        }
    return 0;
}

static PyObject *dict_of(const struct sonde_trace_reply *reply)
{
    size_t count;
    const struct sonde_trace_setting *s = sonde_trace_reply_settings(reply, &count);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < count; i++) {
        PyObject *values = PyList_New(0);
        int r = values ? PyDict_SetItemString(dict, s[i].name, values) : -1;
        for (size_t k = 0; r == 0 && k < s[i].value_count; k++) {
            PyObject *text = PyUnicode_DecodeUTF8(s[i].values[k], (Py_ssize_t)strlen(s[i].values[k]), "replace");
            r = text ? PyList_Append(values, text) : -1;
            Py_XDECREF(text);
        }
        Py_XDECREF(values);
        if (r < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *refuse(int code, const char *why)
{
    PyObject *error = PyObject_CallFunction(refused_type, "is", code, why);
    if (error)
        PyErr_SetObject(refused_type, error);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *manager_grpc(PyObject *self, PyObject *arguments)
{
    char why[SONDE_TRACE_WHY_SIZE] = "";
    const char *model;
    PyObject *dict, *result = NULL;
    struct map map = {0};
    struct sonde_trace_reply *reply = NULL;
    struct sonde_trace_manager *native = native_of(self);
    if (!native || !PyArg_ParseTuple(arguments, "zO!", &model, &PyDict_Type, &dict))
        return NULL;
    PyObject *keep = PyList_New(0);
    if (keep && read_map(dict, keep, &map) == 0) {
        int code = sonde_trace_grpc(native, model, map.settings, map.count, &reply, why, sizeof(why));
        result = code == 0 ? dict_of(reply) : refuse(code, why);
    }
    sonde_trace_reply_free(reply);
    map_free(&map);
    Py_XDECREF(keep);
    return result;
}

static PyMethodDef methods[] = {
    {"model", manager_model, METH_VARARGS, "model(name, version, owner) -> Model, which keeps the owner alive."},
    {"stats", manager_stats, METH_NOARGS, "stats() -> dict of counts."},
    {"metrics", manager_metrics, METH_NOARGS, "metrics() -> str, for Prometheus."},
    {"flush", manager_flush, METH_VARARGS, NULL},
    {"close", manager_close, METH_NOARGS, NULL},
    {"http", manager_http, METH_VARARGS, NULL},
    {"grpc", manager_grpc, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, PyType_GenericNew},   {Py_tp_init, manager_init}, {Py_tp_traverse, manager_traverse},
    {Py_tp_dealloc, manager_dealloc}, {Py_tp_methods, methods},   {0, NULL},
};

static PyType_Spec spec = {"sonde._native.Manager", sizeof(struct manager), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           slots};

int trace_manager_add_types(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    refused_type = PyErr_NewException("sonde.trace.Refused", PyExc_ValueError, NULL);
    return type && refused_type && PyModule_AddObject(module, "Manager", type) == 0 &&
                   PyModule_AddObject(module, "Refused", Py_NewRef(refused_type)) == 0
               ? 0
               : -1;
}
