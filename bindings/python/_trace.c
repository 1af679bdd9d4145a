/* Request traces for Python: sonde._native.Model and .Trace, called by a request's threads and tasks.
 *
 * An untraced request gets a Trace as well, whose methods return at once. No method of a traced one may fail the
 * request: what cannot be recorded (an invalid tensor, an unknown status) is reported as unraisable and ignored. No
 * function releases the GIL, because each takes less time than reacquiring it; so several threads may stamp and end a
 * Trace at once. */
#include "_native.h"

#include <stdint.h>
#include <string.h>

#include <sonde/trace.h>

#define DIMS_MAX 64

static PyTypeObject *model_type;
PyTypeObject *trace_type;
static PyObject *untraced;   /* shared by all untraced requests without headers */
static PyObject *activities; /* {name: its number} */

/* --- helpers --------------------------------------------------------------------------------- */

/* A valid header value as bytes; NULL: invalid. Tabs are allowed between members. */
static PyObject *header_of(PyObject *object)
{
    char *value;
    Py_ssize_t size, good = 0;
    if (!object)
        return NULL;
    PyObject *bytes = PyUnicode_Check(object) ? PyUnicode_AsASCIIString(object) : Py_NewRef(object);
    if (!bytes || PyBytes_AsStringAndSize(bytes, &value, &size) < 0) {
        PyErr_Clear();
        Py_XDECREF(bytes);
        return NULL;
    }
    while (good < size && ((value[good] >= ' ' && value[good] <= '~') || value[good] == '\t'))
        good++;
    if (size > 0 && good == size)
        return bytes;
    Py_DECREF(bytes);
    return NULL;
}

/* Calls a helper of sonde._recording; returns a new reference. */
static PyObject *call_python(const char *function, PyObject *a, PyObject *b)
{
    PyObject *module = PyImport_ImportModule("sonde._recording");
    PyObject *callable = module ? PyObject_GetAttrString(module, function) : NULL;
    PyObject *result = callable ? PyObject_CallFunctionObjArgs(callable, a, b, NULL) : NULL;
    Py_XDECREF(callable);
    Py_XDECREF(module);
    return result;
}

/* Takes ownership of `native`, which may be NULL. */
static PyObject *trace_object(struct sonde_trace *native, PyObject *owner, PyObject *traceparent, PyObject *tracestate)
{
    if (!native && !traceparent && untraced)
        return Py_NewRef(untraced);
    struct trace *t = PyObject_GC_New(struct trace, trace_type);
    if (!t) {
        sonde_trace_end(native, SONDE_TRACE_ERROR, "no memory");
        return NULL;
    }
    t->native = native;
    t->id = sonde_trace_id(native);
    t->owner = native ? Py_NewRef(owner) : NULL;
    t->traceparent = traceparent ? Py_NewRef(traceparent) : NULL;
    t->tracestate = tracestate ? Py_NewRef(tracestate) : NULL;
    PyObject_GC_Track(t);
    return (PyObject *)t;
}

/* *native is read only after all Python code has run, because that may end the trace. */
static void set_request_id(struct sonde_trace *const *native, PyObject *id)
{
    char *text;
    Py_ssize_t size;
    PyObject *bytes = *native && id && id != Py_None ? native_bytes(id) : NULL;
    if (bytes && PyBytes_AsStringAndSize(bytes, &text, &size) == 0)
        sonde_trace_request_id(*native, text, (size_t)size);
    Py_XDECREF(bytes);
}

/* --- models ---------------------------------------------------------------------------------- */

PyObject *trace_model_object(struct sonde_trace_manager *manager, const char *name, long long version, PyObject *owner)
{
    struct sonde_trace_model *native;
    int r = sonde_trace_model_new(manager, name, version, &native);
    if (r < 0)
        return native_fail(r, r == -EINVAL ? "a model's name has 1 to 1024 bytes" : "models");
    struct model *model = PyObject_GC_New(struct model, model_type);
    if (!model) {
        sonde_trace_model_free(native);
        return NULL;
    }
    model->native = native;
    model->owner = Py_NewRef(owner);
    PyObject_GC_Track(model);
    return (PyObject *)model;
}

static PyObject *model_start(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"request_id", "traceparent", "tracestate"};
    PyObject *values[3] = {NULL};
    if ((count > 0 || keywords) && native_take(arguments, count, keywords, names, 0, 3, values) < 0)
        return native_done(self, untraced);
    PyObject *traceparent = header_of(values[1]), *tracestate = header_of(values[2]);
    struct sonde_trace_request request = {
        .size = sizeof(request),
        .traceparent = traceparent ? PyBytes_AsString(traceparent) : NULL,
        .tracestate = tracestate ? PyBytes_AsString(tracestate) : NULL,
    };
    struct sonde_trace *native = sonde_trace_start(((struct model *)self)->native, traceparent ? &request : NULL);
    set_request_id(&native, values[0]);
    PyObject *t = trace_object(native, ((struct model *)self)->owner, traceparent, tracestate);
    Py_XDECREF(traceparent);
    Py_XDECREF(tracestate);
    if (!PyErr_Occurred())
        return t;
    PyObject *result = native_done(self, t ? t : untraced);
    Py_XDECREF(t);
    return result;
}

static int model_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct model *)self)->owner);
    return 0;
}

static void model_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    sonde_trace_model_free(((struct model *)self)->native);
    Py_XDECREF(((struct model *)self)->owner);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef model_methods[] = {
    {"start", FAST(model_start),
     "start(request_id=None, traceparent=None, tracestate=None) -> Trace, which is falsy if the request is "
     "not traced. The headers belong to W3C Trace Context."},
    {"generation", FAST(generation_begin),
     "generation(trace=None, operation='text_completion') -> Generation: begins a token generation. It is counted "
     "for every request, traced or not."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_traverse, model_traverse},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {Py_tp_doc, "A loaded version of a model, for the lifetime of this object; created by Manager.model."},
    {0, NULL},
};

static PyType_Spec model_spec = {"sonde._native.Model", sizeof(struct model), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, model_slots};

/* --- timestamps and tensors ------------------------------------------------------------------ */

/* t->native is read late, as above. */
static void stamp(struct trace *t, PyObject *name, PyObject *time)
{
    uint64_t ns = time ? PyLong_AsUnsignedLongLong(time) : sonde_trace_now_ns();
    PyObject *number = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(activities, name);
    if (number) {
        sonde_trace_timestamp_at(t->native, (enum sonde_trace_activity)PyLong_AsLong(number), ns);
        return;
    }
    PyObject *bytes = PyErr_Occurred() ? NULL : native_bytes(name);
    if (bytes)
        sonde_trace_custom_at(t->native, PyBytes_AsString(bytes), ns);
    Py_XDECREF(bytes);
}

static PyObject *trace_timestamp(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"name", "ns"};
    struct trace *t = (struct trace *)self;
    PyObject *values[2] = {NULL};
    if (!t->native)
        return Py_NewRef(Py_None);
    if (native_take(arguments, count, keywords, names, 1, 2, values) == 0)
        stamp(t, values[0], values[1]);
    return native_done(self, Py_None);
}

/* The buffer API is part of the limited API only since 3.11, but has been stable since 3.3. */
#if Py_LIMITED_API + 0 < 0x030b0000
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
#define PyBUF_FORMAT       0x0004
#define PyBUF_ND           0x0008
#define PyBUF_C_CONTIGUOUS (0x0020 | 0x0010 | PyBUF_ND)
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
void PyBuffer_Release(Py_buffer *view);
#endif

/* Whether the data is a contiguous buffer of plain values; for BYTES, one that is already in wire form. */
static int is_plain(PyObject *data, const char *dtype, Py_buffer *ret_view)
{
    if (strcmp(dtype, "BYTES") == 0 && !PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data))
        return 0;
    if (PyObject_GetBuffer(data, ret_view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (!ret_view->format || !strpbrk(ret_view->format, "O>!"))
        return 1; /* neither objects nor the other byte order */
    PyBuffer_Release(ret_view);
    return 0;
}

static void record(struct trace *t, enum sonde_trace_activity activity, struct sonde_trace_tensor *tensor,
                   PyObject *data, PyObject *dtype)
{
    Py_buffer view;
    PyObject *packed = NULL;
    if (data && !is_plain(data, tensor->dtype, &view)) {
        data = packed = call_python("packed", dtype, data);
        if (!packed || PyObject_GetBuffer(packed, &view, PyBUF_C_CONTIGUOUS) < 0) {
            Py_XDECREF(packed);
            return;
        }
    }
    if (data) {
        tensor->data = view.buf ? view.buf : "";
        tensor->size_bytes = (size_t)view.len;
    }
    sonde_trace_tensor(t->native, activity, tensor);
    if (data)
        PyBuffer_Release(&view);
    Py_XDECREF(packed);
}

static Py_ssize_t take_shape(PyObject *shape, int64_t *ret_dims)
{
    Py_ssize_t count = PySequence_Size(shape);
    if (count > DIMS_MAX)
        PyErr_SetString(PyExc_ValueError, "a shape has at most 64 dimensions");
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *dim = PySequence_GetItem(shape, i);
        ret_dims[i] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
    }
    return PyErr_Occurred() ? -1 : count;
}

/* values: activity, name, dtype, shape, data */
static void record_tensor(struct trace *t, PyObject *const *values)
{
    int64_t shape[DIMS_MAX];
    PyObject *number = PyDict_GetItemWithError(activities, values[0]);
    long activity = number ? PyLong_AsLong(number) : -1;
    if (activity < SONDE_TRACE_TENSOR_QUEUE_INPUT) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%R is not a tensor activity", values[0]);
        return;
    }
    Py_ssize_t dims = take_shape(values[3], shape);
    PyObject *name = dims < 0 ? NULL : native_bytes(values[1]), *dtype = name ? native_bytes(values[2]) : NULL;
    if (dtype) {
        struct sonde_trace_tensor tensor = {
            .name = PyBytes_AsString(name),
            .dtype = PyBytes_AsString(dtype),
            .shape = shape,
            .dims = (size_t)dims,
        };
        record(t, (enum sonde_trace_activity)activity, &tensor, values[4], values[2]);
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
}

static PyObject *trace_tensor(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"activity", "name", "dtype", "shape", "data"};
    struct trace *t = (struct trace *)self;
    PyObject *values[5] = {NULL};
    if (!(sonde_trace_level(t->native) & SONDE_TRACE_TENSORS))
        return Py_NewRef(Py_None);
    if (native_take(arguments, count, keywords, names, 4, 5, values) == 0)
        record_tensor(t, values);
    return native_done(self, Py_None);
}

/* --- the rest of a trace --------------------------------------------------------------------- */

static PyObject *trace_set_request_id(PyObject *self, PyObject *id)
{
    set_request_id(&((struct trace *)self)->native, id);
    return native_done(self, Py_None);
}

static PyObject *trace_child(PyObject *self, PyObject *model)
{
    struct trace *t = (struct trace *)self;
    if (!t->native)
        return Py_NewRef(self);
    if (!PyObject_TypeCheck(model, model_type)) {
        PyErr_Format(PyExc_TypeError, "a Model, not %R", (PyObject *)Py_TYPE(model));
        return native_done(self, untraced);
    }
    return trace_object(sonde_trace_child(t->native, ((struct model *)model)->native), t->owner, t->traceparent,
                        t->tracestate);
}

static int put_header(PyObject *headers, const char *name, const char *value)
{
    PyObject *text = PyUnicode_FromString(value);
    int r = text ? PyDict_SetItemString(headers, name, text) : -1;
    Py_XDECREF(text);
    return r;
}

static PyObject *trace_context(PyObject *self, PyObject *unused)
{
    struct trace *t = (struct trace *)self;
    char text[SONDE_TRACE_PARENT_SIZE];
    const char *parent = text, *state;
    (void)unused;
    if (sonde_trace_context(t->native, text, &state) < 0) {
        parent = t->traceparent ? PyBytes_AsString(t->traceparent) : NULL;
        state = t->tracestate ? PyBytes_AsString(t->tracestate) : NULL;
        parent = sonde_trace_parent_is_valid(parent) ? parent : NULL;
        state = sonde_trace_state_is_valid(state) ? state : NULL;
    }
    PyObject *headers = PyDict_New();
    if (headers && ((parent && put_header(headers, "traceparent", parent) < 0) ||
                    (parent && state && put_header(headers, "tracestate", state) < 0)))
        Py_CLEAR(headers);
    return headers;
}

static void end(struct trace *t, enum sonde_trace_status status, PyObject *message)
{
    PyObject *bytes = message && message != Py_None ? native_bytes(message) : NULL;
    struct sonde_trace *native = t->native;
    t->native = NULL;
    sonde_trace_end(native, status, bytes ? PyBytes_AsString(bytes) : NULL);
    Py_XDECREF(bytes);
}

/* An unknown status raises an error in the caller and counts as an error. */
static enum sonde_trace_status status_of(PyObject *status)
{
    static const char *const names[] = {
        [SONDE_TRACE_OK] = "ok", [SONDE_TRACE_ERROR] = "error", [SONDE_TRACE_CANCELLED] = "cancelled"};
    for (unsigned i = 0; status && i < 3; i++)
        if (PyUnicode_Check(status) && PyUnicode_CompareWithASCIIString(status, names[i]) == 0)
            return (enum sonde_trace_status)i;
    if (!status)
        return SONDE_TRACE_OK;
    PyErr_Format(PyExc_ValueError, "%R is not a status: ok, error, cancelled", status);
    return SONDE_TRACE_ERROR;
}

static PyObject *trace_end(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"status", "message"};
    struct trace *t = (struct trace *)self;
    PyObject *values[2] = {NULL};
    if (!t->native)
        return Py_NewRef(Py_None);
    if (native_take(arguments, count, keywords, names, 0, 2, values) < 0)
        return native_done(self, Py_None);
    enum sonde_trace_status status = status_of(values[0]);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(self);
    end(t, status, values[1]);
    return native_done(self, Py_None);
}

static PyObject *trace_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *trace_exit(PyObject *self, PyObject *arguments)
{
    struct trace *t = (struct trace *)self;
    PyObject *kind, *error, *traceback, *outcome = NULL;
    if (!t->native)
        return Py_NewRef(Py_None);
    if (!PyArg_UnpackTuple(arguments, "__exit__", 3, 3, &kind, &error, &traceback))
        return NULL;
    if (kind != Py_None)
        outcome = call_python("outcome", kind, error);
    if (outcome)
        end(t, status_of(PyTuple_GetItem(outcome, 0)), PyTuple_GetItem(outcome, 1));
    else
        end(t, kind == Py_None ? SONDE_TRACE_OK : SONDE_TRACE_ERROR, NULL);
    Py_XDECREF(outcome);
    return native_done(self, Py_None);
}

static PyObject *trace_get_level(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(sonde_trace_level(((struct trace *)self)->native));
}

static PyObject *trace_get_id(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct trace *)self)->id);
}

static PyObject *trace_get_active(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct trace *)self)->native != NULL);
}

static int trace_bool(PyObject *self)
{
    return sonde_trace_level(((struct trace *)self)->native) != 0;
}

/* Creates an untraced Trace. */
static PyObject *trace_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"traceparent", "tracestate", NULL};
    PyObject *parent = NULL, *state = NULL;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO", names, &parent, &state))
        return NULL;
    PyObject *traceparent = header_of(parent), *tracestate = header_of(state);
    PyObject *t = trace_object(NULL, NULL, traceparent, tracestate);
    Py_XDECREF(traceparent);
    Py_XDECREF(tracestate);
    return t;
}

static int trace_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct trace *)self)->owner);
    return 0;
}

static void trace_dealloc(PyObject *self)
{
    struct trace *t = (struct trace *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    sonde_trace_end(t->native, SONDE_TRACE_ERROR, "dropped without an end");
    Py_XDECREF(t->owner);
    Py_XDECREF(t->traceparent);
    Py_XDECREF(t->tracestate);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef trace_methods[] = {
    {"timestamp", FAST(trace_timestamp),
     "timestamp(name, ns=None): now, or at a time.monotonic_ns(). Triton's names (\"REQUEST_START\") or custom ones."},
    {"tensor", FAST(trace_tensor),
     "tensor(activity, name, dtype, shape, data=None), if the level includes TENSORS. The data: any buffer, such as "
     "a numpy array; numbers; for BYTES, its elements."},
    {"set_request_id", trace_set_request_id, METH_O, "set_request_id(id): str or bytes."},
    {"child", trace_child, METH_O, "child(model) -> Trace: an ensemble step, or a request that a model issues itself."},
    {"context", trace_context, METH_NOARGS,
     "context() -> dict: the W3C headers for outgoing requests; for a request without spans the "
     "incoming ones, if valid."},
    {"working", working_object, METH_NOARGS,
     "working(): within a `with` block, this thread works for the request; for coroutines see sonde.trace.working."},
    {"end", FAST(trace_end), "end(status='ok', message=None): 'ok', 'error' or 'cancelled'. Once."},
    {"__enter__", trace_enter, METH_NOARGS, "Ends the trace at the end of the block."},
    {"__exit__", trace_exit, METH_VARARGS, "Ends the trace; after an exception as an error or cancelled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef trace_members[] = {
    {"level", trace_get_level, NULL, "TIMESTAMPS | TENSORS: the recorded data; 0: not recorded.", NULL},
    {"id", trace_get_id, NULL, "From 1; 0: not traced.", NULL},
    {"active", trace_get_active, NULL, "Whether it must be ended: it is recorded, or a tracer is attached.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot trace_slots[] = {
    {Py_tp_new, trace_new},
    {Py_tp_traverse, trace_traverse},
    {Py_tp_dealloc, trace_dealloc},
    {Py_tp_methods, trace_methods},
    {Py_tp_getset, trace_members},
    {Py_nb_bool, trace_bool},
    {Py_tp_doc, "A request; created by Model.start. True while it is recorded. If deleted, it ends as an error. "
                "Trace(traceparent=None, tracestate=None): an untraced request that forwards these headers."},
    {0, NULL},
};

static PyType_Spec trace_spec = {"sonde._native.Trace", sizeof(struct trace), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, trace_slots};

static int add_activities(void)
{
#define ACTIVITY(name)                                                                                                 \
    {                                                                                                                  \
        #name, SONDE_TRACE_##name                                                                                      \
    }
    static const struct {
        const char *name;
        enum sonde_trace_activity activity;
    } all[] = {
        ACTIVITY(REQUEST_START),         ACTIVITY(QUEUE_START),
        ACTIVITY(COMPUTE_START),         ACTIVITY(COMPUTE_INPUT_END),
        ACTIVITY(COMPUTE_OUTPUT_START),  ACTIVITY(COMPUTE_END),
        ACTIVITY(REQUEST_END),           ACTIVITY(HTTP_RECV_START),
        ACTIVITY(HTTP_RECV_END),         ACTIVITY(HTTP_SEND_START),
        ACTIVITY(HTTP_SEND_END),         ACTIVITY(GRPC_WAITREAD_START),
        ACTIVITY(GRPC_WAITREAD_END),     ACTIVITY(GRPC_SEND_START),
        ACTIVITY(GRPC_SEND_END),         ACTIVITY(INFER_RESPONSE_COMPLETE),
        ACTIVITY(TENSOR_QUEUE_INPUT),    ACTIVITY(TENSOR_BACKEND_INPUT),
        ACTIVITY(TENSOR_BACKEND_OUTPUT),
    };
#undef ACTIVITY
    activities = PyDict_New();
    for (size_t i = 0; activities && i < sizeof(all) / sizeof(all[0]); i++) {
        PyObject *number = PyLong_FromLong(all[i].activity);
        int r = number ? PyDict_SetItemString(activities, all[i].name, number) : -1;
        Py_XDECREF(number);
        if (r < 0)
            return -1;
    }
    return activities ? 0 : -1;
}

int trace_add_types(PyObject *module)
{
    model_type = (PyTypeObject *)PyType_FromSpec(&model_spec);
    trace_type = (PyTypeObject *)PyType_FromSpec(&trace_spec);
    untraced = trace_type ? PyObject_CallObject((PyObject *)trace_type, NULL) : NULL;
    return model_type && untraced && add_activities() == 0 &&
                   PyModule_AddObject(module, "Model", Py_NewRef((PyObject *)model_type)) == 0 &&
                   PyModule_AddObject(module, "Trace", Py_NewRef((PyObject *)trace_type)) == 0 &&
                   generation_add_types(module) == 0 && working_add_types(module) == 0
               ? 0
               : -1;
}
