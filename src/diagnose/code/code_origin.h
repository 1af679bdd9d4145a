/* The origin of a frame's code: the user, a standard library, a framework, an interpreter or the system. Decided by the
 * frame's own fields: its source file, its executable file, the package in its name. Pure. */
#pragma once

#include "model/frame.h"

enum code_origin {
    CODE_OWN,
    CODE_LIBRARY,
    CODE_DISPATCHER, /* library code that runs work of others: an event loop, a thread's start. Its callers set it up,
                        and are not the work */
};

/* `has_runtime`: an interpreter or JIT compiler runs code of the same stack. Native functions of executables are then
 * the runtime's. */
enum code_origin code_origin(const struct frame *f, bool has_runtime);
