/* The side of the fake libcupti that the fake driver (fake_cuda.c) and tests see. */
#pragma once

#include "cuda/cupti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_KINDS 64

/* What a test sets, and what it reads. Set from the environment, too: SONDE_FAKE_CUPTI is a list of words,
 * "subscribed" (another profiler is) or "version=NUMBER". */
struct fake_cupti {
    uint32_t version;
    bool other_subscriber;
    int register_error, enable_error[FAKE_KINDS];
    _Atomic int finalize_count;
    bool reversed;          /* a buffer's records come last first */
    size_t to_drop;         /* records that the next buffer reports as dropped */
    atomic_bool subscribed; /* the library under test is */
    atomic_bool kinds[FAKE_KINDS];
    _Atomic uint32_t calls_enabled;
    uint64_t no_buffer;     /* records for which the library gave no buffer */
    void (*on_flush)(void); /* in the thread that flushes */
};

struct fake_cupti *fake_cupti(void);

/* Whether the library under test is; for programs in Python. */
int fake_cupti_is_subscribed(void);

/* The program's thread is in a call: of the driver or the runtime. */
void fake_cupti_call(uint32_t site, uint32_t domain, uint32_t call, uint32_t correlation);

/* Something ended on the GPU: `record` of `size` bytes, of any kind. Recorded where its kind is enabled. */
void fake_cupti_add(const void *record, size_t size);
