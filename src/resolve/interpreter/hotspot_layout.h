/* What libjvm.so says of itself for debuggers, as far as the walk of its frames needs it: the tables that
 * gHotSpotVMStructs, gHotSpotVMTypes and gHotSpotVMIntConstants point to (names of types and fields with their offsets,
 * of static ones the address). Where they are the file tells; what is in them the process's memory alone does: since 17
 * the offsets are filled in as the library is loaded. So they are read once a process, and distrusted as all of its
 * memory. */
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
    HOTSPOT_STRUCT_KIND, /* the field's type */
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

/* Of a file; addresses as in it. */
struct hotspot_file {
    uint64_t symbols[HOTSPOT_SYMBOL_COUNT];
    uint64_t data_vaddr, data_bytes; /* what of it is written to: the tables are there */
};

/* -ENOENT: no HotSpot. -ENOTSUP: of another kind of machine than x86-64, or larger than any. Errors of elf.h. */
int hotspot_file_read(const struct elf_file *file, struct hotspot_file *ret);

/* The file's constant texts, which the tables point to. The caller frees; `*ret` has one more byte. */
int hotspot_file_texts(const struct elf_file *file, void **ret, size_t *ret_size, uint64_t *ret_vaddr);

struct hotspot_image {
    const struct hotspot_file *file;
    uint64_t bias;       /* where it is, minus where the file says */
    const uint8_t *data; /* file->data_bytes of the process's memory */
    const char *texts;   /* with a NUL behind text_bytes */
    size_t text_bytes;
    uint64_t texts_vaddr;
};

/* -EAGAIN: not filled in yet. -ENOTSUP: something that is needed is not there, or not as we know it (before 9).
 * -EBADMSG: it makes no sense. */
int hotspot_layout_read(const struct hotspot_image *image, struct hotspot_layout *ret);
