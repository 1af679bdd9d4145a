/* Texts of frames and of their kinds; see frame.h. */
#include "model/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *frame_kind_name(enum frame_kind kind)
{
    static const char *const names[FRAME_KIND_COUNT] = {
        [FRAME_NATIVE] = "native", [FRAME_KERNEL] = "kernel",
        [FRAME_BPF] = "bpf",       [FRAME_INTERPRETED] = "interpreted",
        [FRAME_V8JS] = "v8js",     [FRAME_JVM] = "jvm",
        [FRAME_DOTNET] = "dotnet", [FRAME_TRUNCATED] = "truncated",
        [FRAME_WAIT] = "wait",     [FRAME_GPU] = "gpu",
    };
    return kind < FRAME_KIND_COUNT ? names[kind] : "native";
}

const char *frame_text(enum frame_kind kind, const char *function, const char *mapping, uint64_t address,
                       char out[FRAME_TEXT_BYTES])
{
    if (kind == FRAME_TRUNCATED && function[0] != '[') {
        snprintf(out, FRAME_TEXT_BYTES, "[truncated%s%.*s]", function[0] ? ": " : "", FRAME_TEXT_BYTES - 24, function);
        return out;
    }
    if (function[0])
        return function;
    const char *slash = strrchr(mapping, '/');
    const char *base = slash && slash[1] ? slash + 1 : mapping;
    snprintf(out, FRAME_TEXT_BYTES, "%.*s+0x%" PRIx64, FRAME_TEXT_BYTES - 24, base[0] ? base : "[unknown]", address);
    return out;
}
