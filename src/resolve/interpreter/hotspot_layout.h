/* Reads the structure layouts that libjvm.so publishes for debuggers, as far as the walk of its frames needs them: the
 * tables behind gHotSpotVMStructs, gHotSpotVMTypes and gHotSpotVMIntConstants (type and field names with offsets;
 * addresses of static fields). The file gives the location of the tables; their content is only in process memory,
 * because since JDK 17 the offsets are filled in when the library is loaded. They are read once per process and
 * validated, because process memory is untrusted. */
#pragma once

#include <linux/types.h>

#include "probes/hotspot.h"

#include <stddef.h>
#include <stdint.h>

struct elf_file;

enum hotspot_symbol {
    HOTSPOT_STRUCTS,
    HOTSPOT_STRUCT_STRIDE,
    HOTSPOT_STRUCT_TYPE,
    HOTSPOT_STRUCT_FIELD,
    HOTSPOT_STRUCT_KIND, /* the type of the field */
    HOTSPOT_STRUCT_STATIC,
    HOTSPOT_STRUCT_OFFSET,
    HOTSPOT_STRUCT_ADDRESS,
    HOTSPOT_TYPES,
    HOTSPOT_TYPE_STRIDE,
    HOTSPOT_TYPE_NAME,
    HOTSPOT_TYPE_SIZE,
    HOTSPOT_INTS,
    HOTSPOT_INT_STRIDE,
    HOTSPOT_INT_NAME,
    HOTSPOT_INT_VALUE,
    HOTSPOT_SYMBOL_COUNT,
};

/* The data read from the file; virtual addresses of the file. */
struct hotspot_file {
    uint64_t symbols[HOTSPOT_SYMBOL_COUNT];
    uint64_t data_vaddr, data_bytes; /* the writable segment, which holds the tables */
};

/* -ENOENT: not a HotSpot library. -ENOTSUP: not x86-64, or the data segment is too large. Errors of elf.h. */
int hotspot_file_read(const struct elf_file *file, struct hotspot_file *ret);

/* The file's .rodata, which holds the strings that the tables point to. The caller frees `*ret`, which has a NUL after
 * `*ret_size` bytes. */
int hotspot_file_texts(const struct elf_file *file, void **ret, size_t *ret_size, uint64_t *ret_vaddr);

struct hotspot_image {
    const struct hotspot_file *file;
    uint64_t bias;       /* load bias */
    const uint8_t *data; /* process memory at the data segment, file->data_bytes long */
    const char *texts;   /* .rodata, with a NUL after text_bytes */
    size_t text_bytes;
    uint64_t texts_vaddr;
};

/* -EAGAIN: not filled in yet. -ENOTSUP: something required is absent or differs from the known layout (before JDK 9).
 * -EBADMSG: inconsistent tables. */
int hotspot_layout_read(const struct hotspot_image *image, struct hotspot_layout *ret);
