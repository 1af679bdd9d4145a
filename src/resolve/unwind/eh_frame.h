/* Parser of the entries of .eh_frame and .debug_frame: common information entries (CIE) and frame description entries
 * (FDE). Their instructions are interpreted in cfa_program.h. Pure; the input is untrusted. */
#pragma once

#include "base/cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eh_frame {
    const uint8_t *data; /* borrowed */
    size_t size;
    uint64_t vaddr;                  /* of data[0] */
    uint64_t text_vaddr, data_vaddr; /* bases of textrel and datarel pointers */
    bool is_debug_frame;
    bool ends_at_zero; /* the size is an upper bound: an entry of length 0 is the end */
};

struct eh_frame_cie {
    size_t position; /* offset in the section */
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

/* Classifies the entry at `*position`, and for an FDE finds its CIE; advances `*position` to the next entry.
 * EH_FRAME_BAD: an entry with a valid length but invalid content. An invalid length ends the section. */
enum eh_frame_entry eh_frame_next(const struct eh_frame *s, size_t *position, size_t *ret_cie_position);

/* Reads the CIE at `position`. -ENOEXEC: it is damaged, or has an augmentation that cannot be skipped. */
int eh_frame_read_cie(const struct eh_frame *s, size_t position, struct eh_frame_cie *ret);
/* Reads the FDE at `position`, whose CIE is `cie`. -ENOEXEC: it is damaged. */
int eh_frame_read_fde(const struct eh_frame *s, size_t position, const struct eh_frame_cie *cie,
                      struct eh_frame_fde *ret);

/* Reads a pointer in a DW_EH_PE_* encoding at the cursor, which must span the section's data, so that its position
 * gives the pointer's own address. False: omitted, indirect, or an unknown encoding. */
bool eh_frame_pointer(const struct eh_frame *s, struct cursor *c, uint8_t encoding, uint64_t *ret);
