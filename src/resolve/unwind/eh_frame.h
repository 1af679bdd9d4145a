/* Entries of .eh_frame and .debug_frame: common information (CIE) and descriptions of functions (FDE), as
 * they lie in the section. Reads only; the meaning of their instructions is cfa_program.h's. */
#pragma once

#include "base/cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eh_frame {
    const uint8_t *data; /* borrowed */
    size_t size;
    uint64_t vaddr;                  /* of data[0] */
    uint64_t text_vaddr, data_vaddr; /* what textrel and datarel pointers count from */
    bool is_debug_frame;
    bool ends_at_zero; /* the size is a guess: an entry of length 0 is the end */
};

struct eh_frame_cie {
    size_t position; /* in the section */
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    uint8_t pointer_encoding;
    bool has_augmentation_data;
    bool is_signal_frame;
    struct cursor instructions;
};

struct eh_frame_fde {
    size_t position;
    size_t cie_position;
    uint64_t start, end; /* virtual addresses, end > start */
    struct cursor instructions;
};

enum eh_frame_entry { EH_FRAME_END, EH_FRAME_CIE, EH_FRAME_FDE, EH_FRAME_BAD };

/* The kind of the entry at `*position`, and for an FDE where its CIE is; moves `*position` to the next entry.
 * EH_FRAME_BAD: an entry that makes no sense but whose length does; what has no sensible length ends the
 * section. */
enum eh_frame_entry eh_frame_next(const struct eh_frame *s, size_t *position, size_t *ret_cie_position);

/* Reads the CIE at `position`; -ENOEXEC when it is damaged or has an augmentation that cannot be skipped. */
int eh_frame_read_cie(const struct eh_frame *s, size_t position, struct eh_frame_cie *ret);
int eh_frame_read_fde(const struct eh_frame *s, size_t position, const struct eh_frame_cie *cie,
                      struct eh_frame_fde *ret);

/* A pointer in one of the DW_EH_PE_* encodings, at the cursor (which must span the section's data, so that
 * positions are places). False: omitted, indirect, or an encoding that does not exist. */
bool eh_frame_pointer(const struct eh_frame *s, struct cursor *c, uint8_t encoding, uint64_t *ret);
