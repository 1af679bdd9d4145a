/* Common to the methods of requests: parsing of positional and keyword arguments without the cost of PyArg_Parse,
 * texts as bytes, and results that are returned despite internal errors. */
#include "_native.h"

PyObject *native_done(PyObject *self, PyObject *result)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return NULL;
        PyErr_WriteUnraisable(self);
    }
    return Py_NewRef(result);
}

int native_take(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, const char *const *names,
                Py_ssize_t required, Py_ssize_t max, PyObject **ret_values)
{
    Py_ssize_t keyword_count = keywords ? PyTuple_Size(keywords) : 0, i;
    if (count > max) {
        PyErr_Format(PyExc_TypeError, "at most %zd arguments", max);
        return -1;
    }
    for (i = 0; i < count; i++)
        ret_values[i] = arguments[i];
    for (Py_ssize_t k = 0; k < keyword_count; k++) {
        PyObject *name = PyTuple_GetItem(keywords, k);
        for (i = 0; i < max && PyUnicode_CompareWithASCIIString(name, names[i]) != 0; i++)
            ;
        if (i == max || ret_values[i]) {
            PyErr_Format(PyExc_TypeError, "the argument %R is unknown or given twice", name);
            return -1;
        }
        ret_values[i] = arguments[count + k];
    }
    for (i = 0; i < required; i++)
        if (!ret_values[i]) {
            PyErr_Format(PyExc_TypeError, "the argument %s is missing", names[i]);
            return -1;
        }
    for (i = required; i < max; i++)
        if (ret_values[i] == Py_None)
            ret_values[i] = NULL;
    return 0;
}

PyObject *native_bytes(PyObject *object)
{
    PyObject *text = PyBytes_Check(object) || PyUnicode_Check(object) ? Py_NewRef(object) : PyObject_Str(object);
    if (!text || PyBytes_Check(text))
        return text;
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (!bytes && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    }
    Py_DECREF(text);
    return bytes;
}
