/* Builds the ELF object of a provider's probes, both as tracers read it from the file and as it is mapped for
 * execution. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "arguments.h"
#include "site.h"

#define PROBE_BUILD_ID_SIZE 16

struct probe_image_entry {
    const char *name;
    const struct probe_arguments *arguments;
};

/* File offsets equal addresses relative to the mapping. */
struct probe_image {
    uint8_t *bytes;
    size_t size;
    size_t text_segment_size; /* from offset 0: read and execute; a multiple of the page size */
    size_t stubs_offset;      /* PROBE_STUB_SIZE bytes each */
    size_t data_segment_size; /* from text_segment_size: read and write; a multiple of the page size. The file
                               * holds at least the semaphores of it */
    size_t semaphores_offset; /* uint16_t each */
    uint8_t build_id[PROBE_BUILD_ID_SIZE];
};

/* Writes the object of `count` (at least 1) probes of `provider`. The same probes, site and page size give identical
 * bytes. On success the caller frees the image with probe_image_done. -ENOMEM. */
int probe_image_make(const char *provider, const struct probe_image_entry *probes, size_t count,
                     const struct probe_site *site, size_t page_size, struct probe_image *ret_image);

void probe_image_done(struct probe_image *image);
