/* One frame of a stack with everything known about it. Plain data; all strings are borrowed from the creator of the
 * frame and never NULL ("": unknown). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;

/* Names equal the values of OpenTelemetry's attribute profile.frame.type where one exists. */
enum frame_kind {
    FRAME_NATIVE,      /* "native" */
    FRAME_KERNEL,      /* "kernel" */
    FRAME_BPF,         /* "bpf": a BPF program */
    FRAME_INTERPRETED, /* "interpreted", in OpenTelemetry "cpython": a CPython function, with its file and line. Other
                          interpreters have kinds of their own */
    FRAME_V8JS,        /* "v8js": code that V8 (Node) compiled from JavaScript */
    FRAME_JVM,         /* "jvm": code that HotSpot compiled from Java */
    FRAME_DOTNET,      /* "dotnet": code that .NET's runtime compiled */
    FRAME_TRUNCATED,   /* not code: the stack continues, but could not be walked further; `function` has the reason */
    FRAME_WAIT, /* not code: on top of the stack of a waiting thread, the reason of the wait: "[disk: pread64]" */
    FRAME_GPU,  /* "gpu": work on a GPU, on top of the stack that launched it: a kernel, "[copy host to device]" */
    FRAME_KIND_COUNT,
};

struct frame {
    enum frame_kind kind;
    const char *function;    /* demangled, or "" when unnamed */
    const char *system_name; /* linkage name (mangled); "" when equal to `function`, or unknown */
    const char *file;        /* source file, "" when unknown */
    uint32_t line;           /* 0: unknown */
    const char *mapping;     /* path of the executable file; "[kernel.kallsyms]", "[nvidia]" (a module), "[vdso]" */
    const char *build_id;    /* hexadecimal */
    bool is_first_line;      /* `line` is where the function begins: the line that runs is unknown */
    bool inlined;            /* the function was inlined into the next frame's function, at the same address */
    uint64_t address;        /* native: virtual address in the ELF file; kernel: as is */
    struct object *object;   /* native: the ELF file, for stages before the windows; NULL: unknown */
};

/* A frame of which only this is known: one that is not code, with its text, or one to be filled further. */
static inline struct frame frame_of_text(enum frame_kind kind, const char *text)
{
    return (struct frame){.kind = kind, .function = text, .system_name = "", .file = "", .mapping = "", .build_id = ""};
}

const char *frame_kind_name(enum frame_kind kind);

/* True when frames of this kind always have the line being executed, so that one function appears as many frames. */
static inline bool frame_kind_has_lines(enum frame_kind kind)
{
    return kind == FRAME_INTERPRETED || kind == FRAME_V8JS || kind == FRAME_JVM || kind == FRAME_DOTNET;
}

/* The text of a frame for display: the function's name, else "libfoo.so+0x1234" (base name of the mapping and
 * address), formatted into `out`. A truncated frame reads "[truncated: REASON]", unless its function is
 * in brackets already. Returns `function` itself or `out`. */
#define FRAME_TEXT_BYTES 320
const char *frame_text(enum frame_kind kind, const char *function, const char *mapping, uint64_t address,
                       char out[FRAME_TEXT_BYTES]);
