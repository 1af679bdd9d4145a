/* Maps a serving process to its service name: queried by the request source, provided by the resolver. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct request_service_names {
    void *context;
    /* Writes the service's name ("" or unchanged: unknown). Called by the pipeline thread and by threads that request
     * metrics, never concurrently. */
    void (*service)(void *context, uint32_t pid, char *out, size_t size);
};

/* Copies `names`; its context must outlive the source. Without names, services are named after their command. */
void request_source_set_names(void *request_source, const struct request_service_names *names);
