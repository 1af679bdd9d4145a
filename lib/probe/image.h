/* The ELF object that holds a provider's probes, as bytes: what consumers read, and what is mapped so that it
 * runs. */
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

/* File offsets are addresses relative to where the object is mapped. */
struct probe_image {
    uint8_t *bytes;
    size_t size;
    size_t text_segment_size; /* from 0: readable and executable; whole pages */
    size_t stubs_offset;      /* PROBE_STUB_SIZE bytes each */
    size_t data_segment_size; /* from text_segment_size: readable and writable; whole pages, of which the file
                                 has at least the semaphores */
    size_t semaphores_offset; /* uint16_t each */
    uint8_t build_id[PROBE_BUILD_ID_SIZE];
};

/* Writes the object of `count` (at least 1) probes of `provider`. The same probes, site and page size make
 * the same bytes. -ENOMEM. */
int probe_image_make(const char *provider, const struct probe_image_entry *probes, size_t count,
                     const struct probe_site *site, size_t page_size, struct probe_image *ret_image);

void probe_image_done(struct probe_image *image);
