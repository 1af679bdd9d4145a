/* `sonde record --event`: what the user's word for an event means on this machine, and how its samples are told. Says
 * itself what is wrong. Main thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/attach/sample_event.h"

#include <stddef.h>
#include <stdint.h>

struct option_texts;
struct profile;
struct source_options;

struct record_event;

/* `names`: as given; none: `*ret` is NULL. `period`: 0: the event's own. -EINVAL, -ENOMEM. */
int record_event_new(const struct option_texts *names, int64_t period, struct record_event **ret);
void record_event_free(struct record_event *e);
DEFINE_FREEP(record_event)

/* That of a recorded wire, which is borrowed for the call: only for telling of it. -ENOMEM. */
int record_event_of_replay(const struct sample_event *event, struct record_event **ret);

/* Whether this machine has it, and where a probe is: in the processes that `options` names and in `command` (NULL:
 * none), else in all there are. Puts it into `options`, which borrow it. -errno after a message. */
int record_event_find(struct record_event *e, struct source_options *options, const char *command);

/* What the profile's weights are; before anything is added. -ENOMEM. */
int record_event_set(const struct record_event *e, struct profile *profile);

#define RECORD_EVENT_TEXT_BYTES 128
/* "12 events", or what these samples, of this weight in all, stand for. Returns `out`. */
const char *record_event_tell(const struct record_event *e, uint64_t samples, uint64_t weight,
                              char out[RECORD_EVENT_TEXT_BYTES]);
/* Why there may be none. */
void record_event_explain_none(const struct record_event *e);
