/* Common to the HTTP and the gRPC form of the trace protocol: parsing of updates with their errors, and the settings
 * of a reply. */
#pragma once

#include "manager.h"

#define TRACE_REASON_SIZE 512

struct trace_reason {
    int grpc_code; /* 3: invalid argument, 8: out of memory, 12: cannot be changed */
    char text[TRACE_REASON_SIZE];
};

enum trace_form { TRACE_FORM_HTTP, TRACE_FORM_GRPC };

/* Each returns 0, or -EINVAL with *reason filled. `value` is NUL-terminated. */
int trace_update_level(struct trace_update *u, const char *value, size_t count, struct trace_reason *reason);
int trace_update_number(struct trace_update *u, enum trace_field field, const char *value, enum trace_form form,
                        struct trace_reason *reason);

/* The field of that name; 0 with *reason filled: cannot be updated. */
enum trace_field trace_field_named(const char *name, struct trace_reason *reason);

/* Calls trace_manager_update and describes its errors in *reason; `u` NULL only reads. */
int trace_apply(struct sonde_trace_manager *m, const char *model, const struct trace_update *u,
                struct trace_values *ret_values, struct trace_reason *reason);

/* Calls `each` for every setting of a reply, in order; levels may have several values. */
void trace_show(const struct sonde_trace_manager *m, const struct trace_values *values,
                void (*each)(void *argument, const char *name, const char *const *texts, size_t count), void *argument);
