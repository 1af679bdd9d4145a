/* The numbers of waitReason in Go's src/runtime/runtime2.go, as released. */
#include "resolve/elf/go_waits.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <stddef.h>

struct go_wait {
    uint8_t reason, state;
};

static const struct go_wait waits_20[] = {
    {2, RECORDER_TASK_WAITS_IO},    {9, RECORDER_TASK_WAITS_TASK},  {14, RECORDER_TASK_WAITS_TASK},
    {15, RECORDER_TASK_WAITS_TASK}, {18, RECORDER_TASK_WAITS_TASK}, {19, RECORDER_TASK_WAITS_TIMER},
    {20, RECORDER_TASK_WAITS_TASK}, {21, RECORDER_TASK_WAITS_LOCK}, {22, RECORDER_TASK_WAITS_LOCK},
    {23, RECORDER_TASK_WAITS_LOCK},
};
static const struct go_wait waits_26[] = {
    {2, RECORDER_TASK_WAITS_IO},    {13, RECORDER_TASK_WAITS_TASK}, {14, RECORDER_TASK_WAITS_TIMER},
    {18, RECORDER_TASK_WAITS_TASK}, {19, RECORDER_TASK_WAITS_TASK}, {20, RECORDER_TASK_WAITS_TASK},
    {21, RECORDER_TASK_WAITS_TASK}, {22, RECORDER_TASK_WAITS_LOCK}, {23, RECORDER_TASK_WAITS_LOCK},
    {24, RECORDER_TASK_WAITS_LOCK}, {25, RECORDER_TASK_WAITS_TASK},
};

bool go_waits_set(unsigned minor, uint8_t ret[GO_WAITS_MAX])
{
    const bool is_26 = minor == 26;
    const struct go_wait *waits = is_26 ? waits_26 : waits_20;
    const size_t count = is_26 ? sizeof(waits_26) / sizeof(*waits_26) : sizeof(waits_20) / sizeof(*waits_20);
    if (!is_26 && (minor < 20 || minor > 23))
        return false;
    for (size_t i = 0; i < GO_WAITS_MAX; i++)
        ret[i] = RECORDER_TASK_WAITS;
    for (size_t i = 0; i < count; i++)
        ret[waits[i].reason] = waits[i].state;
    return true;
}
