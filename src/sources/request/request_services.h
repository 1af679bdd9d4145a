/* Which service a process that serves requests belongs to: asked by the request source, known to whoever
 * resolves. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct request_service_names {
    void *context;
    /* The service's name as text ("" or unchanged: not known). Called by the pipeline's thread and by whoever
     * asks it for metrics, never by two at a time. */
    void (*service)(void *context, uint32_t pid, char *out, size_t size);
};

/* `names` is copied; its context must outlive the source. Without names, services are called by their
 * commands. */
void request_source_set_names(void *request_source, const struct request_service_names *names);
