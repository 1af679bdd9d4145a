/* The numbers of waitReason in Go's src/runtime/runtime2.go, as released. */
#include "resolve/elf/go_waits.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <stddef.h>

struct go_wait {
    uint8_t first, last, state;
};

static const struct go_wait waits_20[] = {
    {1, 1, RECORDER_TASK_WAITS_GC},     {2, 2, RECORDER_TASK_WAITS_IO},      {6, 7, RECORDER_TASK_WAITS_GC},
    {9, 9, RECORDER_TASK_WAITS_TASK},   {11, 12, RECORDER_TASK_WAITS_GC},    {14, 15, RECORDER_TASK_WAITS_TASK},
    {18, 18, RECORDER_TASK_WAITS_TASK}, {19, 19, RECORDER_TASK_WAITS_TIMER}, {20, 20, RECORDER_TASK_WAITS_TASK},
    {21, 23, RECORDER_TASK_WAITS_LOCK}, {25, 25, RECORDER_TASK_WAITS_GC},    {30, 31, RECORDER_TASK_WAITS_GC},
};
static const struct go_wait waits_24[] = {
    {1, 1, RECORDER_TASK_WAITS_GC},     {2, 2, RECORDER_TASK_WAITS_IO},      {6, 7, RECORDER_TASK_WAITS_GC},
    {9, 9, RECORDER_TASK_WAITS_TASK},   {11, 12, RECORDER_TASK_WAITS_GC},    {14, 15, RECORDER_TASK_WAITS_TASK},
    {18, 18, RECORDER_TASK_WAITS_TASK}, {19, 19, RECORDER_TASK_WAITS_TIMER}, {20, 20, RECORDER_TASK_WAITS_TASK},
    {21, 23, RECORDER_TASK_WAITS_LOCK}, {24, 24, RECORDER_TASK_WAITS_TASK},  {26, 26, RECORDER_TASK_WAITS_GC},
    {31, 32, RECORDER_TASK_WAITS_GC},
};
static const struct go_wait waits_25[] = {
    {1, 1, RECORDER_TASK_WAITS_GC},     {2, 2, RECORDER_TASK_WAITS_IO},      {6, 7, RECORDER_TASK_WAITS_GC},
    {9, 9, RECORDER_TASK_WAITS_TASK},   {11, 12, RECORDER_TASK_WAITS_GC},    {14, 15, RECORDER_TASK_WAITS_TASK},
    {19, 19, RECORDER_TASK_WAITS_TASK}, {20, 20, RECORDER_TASK_WAITS_TIMER}, {21, 21, RECORDER_TASK_WAITS_TASK},
    {22, 24, RECORDER_TASK_WAITS_LOCK}, {25, 25, RECORDER_TASK_WAITS_TASK},  {27, 27, RECORDER_TASK_WAITS_GC},
    {32, 33, RECORDER_TASK_WAITS_GC},
};
static const struct go_wait waits_26[] = {
    {1, 1, RECORDER_TASK_WAITS_GC},     {2, 2, RECORDER_TASK_WAITS_IO},     {4, 5, RECORDER_TASK_WAITS_GC},
    {7, 8, RECORDER_TASK_WAITS_GC},     {13, 13, RECORDER_TASK_WAITS_TASK}, {14, 14, RECORDER_TASK_WAITS_TIMER},
    {18, 21, RECORDER_TASK_WAITS_TASK}, {22, 24, RECORDER_TASK_WAITS_LOCK}, {25, 25, RECORDER_TASK_WAITS_TASK},
    {27, 27, RECORDER_TASK_WAITS_GC},   {32, 33, RECORDER_TASK_WAITS_GC},
};

static const struct {
    unsigned first_minor, last_minor;
    const struct go_wait *waits;
    size_t count;
} versions[] = {
    {20, 23, waits_20, array_size(waits_20)},
    {24, 24, waits_24, array_size(waits_24)},
    {25, 25, waits_25, array_size(waits_25)},
    {26, 26, waits_26, array_size(waits_26)},
};

bool go_waits_set(unsigned minor, uint8_t ret[GO_WAITS_MAX])
{
    for (size_t i = 0; i < GO_WAITS_MAX; i++)
        ret[i] = RECORDER_TASK_WAITS;
    for (size_t v = 0; v < array_size(versions); v++) {
        if (minor < versions[v].first_minor || minor > versions[v].last_minor)
            continue;
        for (size_t i = 0; i < versions[v].count; i++)
            for (unsigned reason = versions[v].waits[i].first; reason <= versions[v].waits[i].last; reason++)
                ret[reason] = versions[v].waits[i].state;
        return true;
    }
    return false;
}
