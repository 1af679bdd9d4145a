/* How the memory of the agent (budget.memory) is divided: the one table. The memory beyond tables of a fixed size is
 * divided among the parts that are in use, by their weights. The sum is at most the whole, unless the whole is too
 * small (missing_bytes). Plain data. */
#pragma once

#include <stdint.h>

/* X(id, name, weight): which limit the part sets. */
#define MEMORY_PARTS(X)                                                                                                \
    X(RECORDER, "recorder",                                                                                            \
      441) /* rings of the flight recorder: how far back the causes of slow requests are known */                      \
    X(UNWIND_TABLES, "unwind_tables", 180)  /* in the kernel */                                                        \
    X(WINDOWS, "windows", 170)              /* samples of the last two minutes */                                      \
    X(CODE, "code", 100)                    /* functions of interpreters, which name their frames */                   \
    X(SYMBOLS, "symbols", 95)               /* indexes of symbol tables, names */                                      \
    X(SAMPLE_RING, "sample_ring", 70)       /* CPU samples on their way to the agent */                                \
    X(REQUESTS, "requests", 50)             /* requests of the last five minutes */                                    \
    X(PROCESSES, "processes", 40)           /* processes, their mappings and files */                                  \
    X(UNWIND_CACHE, "unwind_cache", 35)     /* unwind tables for stacks that are unwound in user space */              \
    X(JIT, "jit", 30)                       /* ranges of JIT-compiled code */                                          \
    X(SIDEBAND_RINGS, "sideband_rings", 15) /* process lifecycle events on their way to the agent */                   \
    X(WAIT_RING, "wait_ring", 58)           /* off-CPU: waits on their way to the agent */                             \
    X(WAIT_STACKS, "wait_stacks", 20)       /* off-CPU: stacks of waits that are not resolved yet */                   \
    X(IO_TABLES, "io_tables", 300)      /* I/O: counters by job and mount, names, requests in flight; in the kernel */ \
    X(IO_SERIES, "io_series", 80)       /* I/O: exported series */                                                     \
    X(EXPORT_QUEUE, "export_queue", 45) /* export: profiles that wait for the receiver */                              \
    X(EXPORT_PROFILES, "export_profiles", 90) /* export: profiles that are being filled */                             \
    X(SPAN_QUEUE, "span_queue", 45)           /* export: requests that wait for the receiver of spans */               \
    X(EVENT_QUEUE, "event_queue", 15)         /* export: events that wait for the receiver of logs */

enum memory_part {
    MEMORY_NONE, /* no part: 0 bytes */
#define X(id, name, weight) MEMORY_##id,
    MEMORY_PARTS(X)
#undef X
        MEMORY_PART_COUNT
};

const char *memory_part_name(enum memory_part part); /* "recorder" */

#define MEMORY_PART_BIT(part) (1u << (part))

/* What something needs beside its parts. */
struct memory_fixed {
    uint32_t bytes;
    uint32_t cpu_bytes; /* for each CPU */
};

struct memory_plan {
    uint64_t bytes[MEMORY_PART_COUNT];
    uint64_t fixed_bytes;
    uint64_t missing_bytes; /* the missing part of the whole; 0: it is enough */
};

/* At least so much is divided, whatever the whole is. */
#define MEMORY_PLAN_LEAST (8ull << 20)

/* Divides `whole_bytes` minus `fixed_bytes` among `parts`, a set of MEMORY_PART_BIT; other parts have 0 bytes.
 * `recorder_max_bytes`: what the recorder does not need of its share is divided among the others. */
void memory_plan_divide(uint64_t whole_bytes, uint64_t fixed_bytes, unsigned parts, uint64_t recorder_max_bytes,
                        struct memory_plan *ret);

/* The parts whose limit can change while the agent runs. All others are tables that are created with their size. */
#define MEMORY_RESIZABLE                                                                                               \
    (MEMORY_PART_BIT(MEMORY_WINDOWS) | MEMORY_PART_BIT(MEMORY_REQUESTS) | MEMORY_PART_BIT(MEMORY_PROCESSES) |          \
     MEMORY_PART_BIT(MEMORY_UNWIND_CACHE) | MEMORY_PART_BIT(MEMORY_JIT))
#define MEMORY_RESIZABLE_LEAST (4ull << 20)

/* Divides among the resizable parts what the other parts of `plan` leave of `whole_bytes`. Returns the least whole that
 * leaves MEMORY_RESIZABLE_LEAST for them; if `whole_bytes` is less, `plan` is unchanged. */
uint64_t memory_plan_resize(struct memory_plan *plan, uint64_t whole_bytes);
