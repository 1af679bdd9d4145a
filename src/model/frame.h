/* One frame of a stack with everything known of it. Plain data; all strings are borrowed from whoever made the frame
 * and never NULL ("" = unknown). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Also the values of OpenTelemetry's attribute profile.frame.type where one exists. */
enum frame_kind {
    FRAME_NATIVE,      /* "native" */
    FRAME_KERNEL,      /* "kernel" */
    FRAME_BPF,         /* "bpf": a BPF program, inside the kernel half */
    FRAME_INTERPRETED, /* "interpreted"; "cpython" in OpenTelemetry's words: a function that CPython runs, with its file
                          and line. Another interpreter has a kind of its own */
    FRAME_V8JS,        /* "v8js": code that V8 (Node) made of JavaScript */
    FRAME_JVM,         /* "jvm": code that HotSpot made of Java's */
    FRAME_DOTNET,      /* "dotnet": code that .NET's runtime made */
    FRAME_TRUNCATED,   /* no code: says that the stack goes on here, and in `function` why it could not be walked */
    FRAME_WAIT,        /* no code: above the stack of a thread that waits, why it does: "[disk: pread64]" */
    FRAME_KIND_COUNT,
};

struct frame {
    enum frame_kind kind;
    const char *function;    /* demangled, or "" when unnamed */
    const char *system_name; /* as linkers know it (mangled); "" where that is `function`, or unknown */
    const char *file;        /* source file, where known */
    uint32_t line;           /* 0: unknown */
    const char *mapping;     /* path of the executable file; "[kernel.kallsyms]", "[nvidia]" (a module), "[vdso]" */
    const char *build_id;    /* hexadecimal */
    bool inlined;            /* the function was inlined into that of the next frame, at the same address */
    uint64_t address;        /* native: as in the ELF file (virtual address); kernel: as is */
};

const char *frame_kind_name(enum frame_kind kind);

/* Whether a frame's line is that of what is executed in a function, by which one function is many frames: of all that
 * comes with lines of its own accord. */
static inline bool frame_kind_has_lines(enum frame_kind kind)
{
    return kind == FRAME_INTERPRETED || kind == FRAME_V8JS || kind == FRAME_JVM || kind == FRAME_DOTNET;
}

/* How a frame is written wherever people read it: the function's name, else "libfoo.so+0x1234" (the base name of the
 * mapping and the address), which needs room in `out`. A truncated frame says so: "[truncated: no unwinding rows]",
 * unless its function already is a text in brackets. Returns `function` itself or `out`. */
#define FRAME_TEXT_BYTES 320
const char *frame_text(enum frame_kind kind, const char *function, const char *mapping, uint64_t address,
                       char out[FRAME_TEXT_BYTES]);
