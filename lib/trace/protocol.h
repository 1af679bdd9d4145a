/* What the HTTP and the gRPC form of the trace protocol share: the fields of an update with their errors, and
 * which settings an answer shows. */
#pragma once

#include "manager.h"

#define TRACE_REASON_SIZE 512

struct trace_reason {
    int grpc_code; /* 3: invalid argument, 8: no memory, 12: cannot be changed */
    char text[TRACE_REASON_SIZE];
};

enum trace_form { TRACE_FORM_HTTP, TRACE_FORM_GRPC };

/* Each returns 0 or -EINVAL with *reason filled. `value` is a whole C string. */
int trace_update_level(struct trace_update *u, const char *value, size_t count, struct trace_reason *reason);
int trace_update_number(struct trace_update *u, enum trace_field field, const char *value, enum trace_form form,
                        struct trace_reason *reason);

/* The field of that name; 0 for one that cannot be updated, with *reason filled. */
enum trace_field trace_field_named(const char *name, struct trace_reason *reason);
const char *trace_field_name(enum trace_field field);

/* trace_manager_update with its errors put into words; `u` NULL only reads. */
int trace_apply(struct sonde_trace_manager *m, const char *model, const struct trace_update *u,
                struct trace_values *ret_values, struct trace_reason *reason);

/* Calls `each` for every setting of an answer, in order; levels come with more than one value. */
void trace_show(const struct sonde_trace_manager *m, const struct trace_values *values,
                void (*each)(void *argument, const char *name, const char *const *texts, size_t count), void *argument);
