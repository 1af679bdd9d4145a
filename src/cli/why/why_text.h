/* Requests as the text that `sonde why` prints: the sentence first, then the components, then the critical path. */
#pragma once

#include "base/buf.h"
#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the examples of groups (request.group is set), at most WHY_GROUPS_MAX of them: the group's cause first, then
 * the example as below. */
void why_text_put_groups(struct request *const *examples, size_t count, bool stacks, uint64_t last_ns, struct buf *out);
#define WHY_GROUPS_MAX 10

/* Appends the requests, slowest first; `last_ns`: the period that they are of; `stacks`: with the stack of every wait.
 * Names that observed programs chose are cleaned of control characters. */
void why_text_put(struct request *const *requests, size_t count, bool stacks, uint64_t last_ns, struct buf *out);
