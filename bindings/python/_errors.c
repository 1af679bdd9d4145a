/* Errors of libsonde as exceptions; see _native.h. */
#include "_native.h"

#include <errno.h>
#include <string.h>

PyObject *native_fail(int error, const char *what)
{
    if (error == -ENOMEM)
        return PyErr_NoMemory();
    return PyErr_Format(PyExc_ValueError, "%s: %s", what, strerror(-error));
}
