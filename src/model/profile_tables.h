/* The tables inside a profile: each finds an equal row or adds one. Private to model/profile*.c.
 *
 * Every function returns 0, -ENOMEM, or -ENOSPC when the row would exceed the profile's limit; `ret` is the row's
 * index and is untouched on failure. A failure leaves the profile consistent; rows added on the way to it stay and
 * are found again. */
#pragma once

#include "model/frame.h"
#include "model/profile_rows.h"

int profile_tables_new(size_t max_bytes, struct profile *p);
void profile_tables_free(struct profile *p);

/* Strings are copied. */
int profile_put_text(struct profile *p, const char *text, uint32_t *ret);
int profile_put_frame(struct profile *p, const struct profile_frame *frame, uint32_t *ret);
/* Both steps for a frame with strings: finds the row of an equal frame seen recently without searching the tables. */
int profile_put_whole_frame(struct profile *p, const struct frame *frame, uint32_t *ret);
int profile_put_stack(struct profile *p, const uint32_t *frames, uint32_t count, uint32_t *ret);
int profile_put_resource(struct profile *p, const struct profile_resource *resource, uint32_t *ret);
/* The row equal to `key` in all but count and value, which are added. */
int profile_put_entry(struct profile *p, const struct profile_entry *key, uint32_t *ret);
/* False when labels have used their share. Must be checked before their strings are added. */
bool profile_has_room_for_labels(const struct profile *p);
/* `texts`: indexes of key, value, key ...; an even number of them, not 0. *ret: 1 + the index of the set. */
int profile_put_labels(struct profile *p, const uint32_t *texts, uint32_t count, uint32_t *ret);
/* With `link`, unless that is unset or links have used their share: then PROFILE_UNLINKED, counted. */
int profile_put_linked_entry(struct profile *p, const struct profile_entry *key, const struct trace_link *link,
                             uint32_t *ret);
/* The same, and a row with its time: both or neither. */
int profile_put_moment(struct profile *p, const struct profile_entry *key, const struct trace_link *link,
                       uint64_t unix_ns);

/* Space for the frame indexes of the current stack, valid until the next call. */
int profile_scratch(struct profile *p, uint32_t count, uint32_t **ret);
