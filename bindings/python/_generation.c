/* Token generations for Python: sonde._native.Generation, which counts every request, traced or not. Like a trace, it
 * never fails a request. */
#include "_native.h"

struct generation {
    PyObject ob_base;
    struct sonde_trace_generation native;
    PyObject *trace; /* a Trace, or NULL */
    PyObject *model; /* keeps the manager alive */
};

static PyTypeObject *generation_type;

/* If the trace ended before its generation, the generation continues without it. */
static struct sonde_trace_generation *native_of(PyObject *self)
{
    struct generation *g = (struct generation *)self;
    if (g->native.trace && !((struct trace *)g->trace)->native)
        g->native.trace = NULL;
    return &g->native;
}

/* Reports a pending exception as unraisable, because it must not fail the request; exceptions that end programs stay.
 */
static void report(PyObject *self)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_WriteUnraisable(self);
}

/* A text owned by *ret_keep; NULL for none, or if the conversion fails. */
static const char *text_of(PyObject *self, PyObject *object, PyObject **ret_keep)
{
    report(self);
    *ret_keep = object && !PyErr_Occurred() ? native_bytes(object) : NULL;
    report(self);
    return *ret_keep ? PyBytes_AsString(*ret_keep) : NULL;
}

/* -1: unknown */
static int64_t count_of(PyObject *self, PyObject *object)
{
    long long count = object && !PyErr_Occurred() ? PyLong_AsLongLong(object) : -1;
    report(self);
    return count;
}

/* Invalid arguments are reported and ignored. */
PyObject *generation_begin(PyObject *model, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"trace", "operation"};
    PyObject *values[2] = {NULL};
    if (native_take(arguments, count, keywords, names, 0, 2, values) < 0)
        values[0] = values[1] = NULL;
    PyObject *trace = values[0] && PyObject_TypeCheck(values[0], trace_type) ? values[0] : NULL;
    if (values[0] && !trace)
        PyErr_Format(PyExc_TypeError, "a Trace, not %R", (PyObject *)Py_TYPE(values[0]));
    PyObject *keep;
    const char *operation = text_of(model, values[1], &keep);
    struct generation *g = PyErr_Occurred() ? NULL : PyObject_GC_New(struct generation, generation_type);
    if (g) {
        g->trace = trace ? Py_NewRef(trace) : NULL;
        g->model = Py_NewRef(model);
        sonde_trace_generation_begin(&g->native, ((struct model *)model)->native,
                                     trace ? ((struct trace *)trace)->native : NULL, operation);
        PyObject_GC_Track(g);
    }
    Py_XDECREF(keep);
    return (PyObject *)g;
}

static PyObject *tokens(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"count"};
    PyObject *values[1] = {NULL};
    long long many = 1;
    if (native_take(arguments, count, keywords, names, 0, 1, values) == 0 && values[0])
        many = PyLong_AsLongLong(values[0]);
    if (!PyErr_Occurred() && (many < 0 || many > UINT32_MAX))
        PyErr_Format(PyExc_ValueError, "%R tokens", values[0]);
    if (!PyErr_Occurred())
        sonde_trace_generation_tokens(native_of(self), (uint32_t)many);
    return native_done(self, Py_None);
}

static PyObject *end(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"input_tokens",   "output_tokens", "response_id",
                                        "response_model", "finish_reason", "error_type"};
    PyObject *values[6] = {NULL}, *kept[4];
    if (native_take(arguments, count, keywords, names, 0, 6, values) < 0)
        return native_done(self, Py_None);
    struct sonde_trace_generation_result result = {
        .size = sizeof(result),
        .input_tokens = count_of(self, values[0]),
        .output_tokens = count_of(self, values[1]),
        .response_id = text_of(self, values[2], &kept[0]),
        .response_model = text_of(self, values[3], &kept[1]),
        .finish_reason = text_of(self, values[4], &kept[2]),
        .error_type = text_of(self, values[5], &kept[3]),
    };
    if (!PyErr_Occurred())
        sonde_trace_generation_end(native_of(self), &result);
    for (int i = 0; i < 4; i++)
        Py_XDECREF(kept[i]);
    return native_done(self, Py_None);
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *arguments)
{
    PyObject *kind, *error, *traceback, *keep;
    if (!PyArg_UnpackTuple(arguments, "__exit__", 3, 3, &kind, &error, &traceback))
        return NULL;
    PyObject *name = kind == Py_None ? NULL : PyObject_GetAttrString(kind, "__name__");
    struct sonde_trace_generation_result result = {
        .size = sizeof(result), .input_tokens = -1, .output_tokens = -1, .error_type = text_of(self, name, &keep)};
    sonde_trace_generation_end(native_of(self), &result);
    Py_XDECREF(keep);
    Py_XDECREF(name);
    return native_done(self, Py_None);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct generation *)self)->trace);
    Py_VISIT(((struct generation *)self)->model);
    return 0;
}

/* A generation that was not ended is in no metric, because its outcome is unknown. */
static void dealloc(PyObject *self)
{
    struct generation *g = (struct generation *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    sonde_trace_generation_drop(&g->native);
    Py_XDECREF(g->trace);
    Py_XDECREF(g->model);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"tokens", FAST(tokens), "tokens(count=1): reports newly emitted tokens; the first call marks the first token."},
    {"end", FAST(end),
     "end(input_tokens=None, output_tokens=None, response_id=None, response_model=None, finish_reason=None, "
     "error_type=None): ends it, before its trace ends; once. output_tokens defaults to the reported tokens."},
    {"__enter__", enter, METH_NOARGS, "Ends at the end of the block, unless `end` was called."},
    {"__exit__", leave, METH_VARARGS, "Ends it; an exception's class becomes the error type."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_traverse, traverse},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "A token generation; created by Model.generation. If deleted without an end, no metric counts it."},
    {0, NULL},
};

static PyType_Spec spec = {"sonde._native.Generation", sizeof(struct generation), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int generation_add_types(PyObject *module)
{
    generation_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return generation_type && PyModule_AddObject(module, "Generation", Py_NewRef((PyObject *)generation_type)) == 0
               ? 0
               : -1;
}
