/* Decides which unwind tables are built, and when, by the rules in unwind_publisher.h. Pipeline thread only. */
#pragma once

#include "pipeline/published.h"

#include <stdbool.h>
#include <stdint.h>

/* Has the object's table built: within the share, or at once and outside of it. */
void unwind_publisher_build(struct unwind_publisher *p, struct published_object *o, bool is_urgent);
/* Once a turn: begins to build the table of the most wanted object, if the share allows. */
void unwind_publisher_build_next(struct unwind_publisher *p);
void unwind_publisher_set_state(struct unwind_publisher *p, struct published_object *o, enum object_state state);
/* `o` is tried again `after_ns` from now. */
void unwind_publisher_retry(struct unwind_publisher *p, struct published_object *o, uint64_t after_ns);
/* At `at_ns` a new generation begins: all processes are then republished with their next sample. */
void unwind_publisher_schedule_retry(struct unwind_publisher *p, uint64_t at_ns);
