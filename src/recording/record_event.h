/* `sonde record --event`: resolves the name of an event on this machine, and formats the summary of its samples.
 * Functions that fail log the reason. Main thread only. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "sources/attach/sample_event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_list;
struct profile;
struct task_filter;

struct record_event;

/* Parses the values of --event. `*ret` is NULL when there are none. `period` 0: the default of the event. -EINVAL,
 * -ENOMEM. */
int record_event_new(const struct text_list *names, int64_t period, struct record_event **ret);
/* --gpu. Prepares the environment of a command, which must not have been forked yet. -ENOMEM, or -errno after logging.
 */
int record_event_new_gpu(bool has_command, struct record_event **ret);
void record_event_free(struct record_event *e);
DEFINE_FREEP(record_event)

/* The event of a replayed recording, for record_event_set and record_event_format only. Copies `event`. -ENOMEM. */
int record_event_of_replay(const struct sample_event *event, struct record_event **ret);

/* Checks that this machine has the event, and finds the sites of a probe: in the processes that `filter` selects and
 * in `command` (NULL: none), otherwise in all processes. `*ret` borrows from `e`. 0, or -errno after logging. */
int record_event_find(struct record_event *e, const struct task_filter *filter, const char *command,
                      const struct sample_event **ret);

/* Sets the type and period of `profile`, before the first sample is added. -ENOMEM. */
int record_event_set(const struct record_event *e, struct profile *profile);

#define RECORD_EVENT_TEXT_BYTES 128
/* Formats "12 events", or "3 samples for 12 events": `sum` is the sum of the values of all samples. Returns `out`. */
const char *record_event_format(const struct record_event *e, uint64_t samples, uint64_t sum,
                                char out[RECORD_EVENT_TEXT_BYTES]);
/* Appends why there may be no samples: a clause. */
void record_event_explain_none(const struct record_event *e, struct buf *out);
