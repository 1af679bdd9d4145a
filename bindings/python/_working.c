/* `with t.working():` for Python: within the block the thread works for that request, which libsonde publishes by
 * probes and the thread context. The block must not span an await: other tasks run on the thread meanwhile (use
 * sonde.trace.working for coroutines). */
#include "_native.h"

#include <pthread.h>

struct working {
    PyObject ob_base;
    PyObject *trace;
    struct sonde_trace *entered; /* to leave it, even if it has ended by then */
    pthread_t thread;            /* the thread that entered */
};

static PyTypeObject *working_type;

PyObject *working_object(PyObject *trace, PyObject *unused)
{
    (void)unused;
    struct working *w = PyObject_New(struct working, working_type);
    if (!w)
        return NULL;
    w->trace = Py_NewRef(trace);
    w->entered = NULL;
    return (PyObject *)w;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct working *w = (struct working *)self;
    if (!w->trace) { /* created directly from its type */
        PyErr_SetString(PyExc_TypeError, "created by Trace.working only");
        return NULL;
    }
    if (!w->entered) {
        w->entered = ((struct trace *)w->trace)->native;
        w->thread = pthread_self();
        sonde_trace_enter(w->entered);
    }
    return Py_NewRef(w->trace);
}

/* On another thread there is nothing to leave; it may be in a block of its own for the same request. */
static void leave_entered(struct working *w)
{
    struct sonde_trace *entered = w->entered;
    w->entered = NULL;
    if (entered && pthread_equal(w->thread, pthread_self()))
        sonde_trace_leave(entered);
}

static PyObject *leave(PyObject *self, PyObject *unused)
{
    (void)unused;
    leave_entered((struct working *)self);
    return Py_NewRef(Py_None);
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    leave_entered((struct working *)self);
    Py_XDECREF(((struct working *)self)->trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"sonde._native.Working", sizeof(struct working), 0, Py_TPFLAGS_DEFAULT, slots};

int working_add_types(PyObject *module)
{
    (void)module; /* instances are created by Trace.working only */
    working_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return working_type ? 0 : -1;
}
