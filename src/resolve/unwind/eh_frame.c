/* Parser of CIEs and FDEs; see eh_frame.h. DWARF 5, section 6.4.1, and the Linux Standard Base's .eh_frame.
 *
 * Cursors always span the section from its first byte, because an encoded pointer may be relative to its own address.
 */
#include "resolve/unwind/eh_frame.h"

#include <errno.h>
#include <string.h>

enum {
    PE_ABSOLUTE = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SIGNED = 0x08,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,
    PE_PC_RELATIVE = 0x10,
    PE_TEXT_RELATIVE = 0x20,
    PE_DATA_RELATIVE = 0x30,
    PE_ALIGNED = 0x50,
    PE_APPLICATION = 0x70,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

/* Location of one entry: its ID field, and its end. */
struct entry {
    size_t id_position;
    size_t end;
    uint64_t id;
    bool is_64;
};

/* False: the length is not within the section. */
static bool read_entry(const struct eh_frame *s, size_t position, struct entry *ret, bool *ret_is_empty)
{
    struct cursor c = cursor_make(s->data, s->size);
    cursor_seek(&c, position);
    struct entry e = {0};
    uint64_t length = cursor_u32(&c);
    if (length == UINT32_MAX) {
        length = cursor_u64(&c);
        e.is_64 = true;
    }
    if (c.failed || length > cursor_left(&c))
        return false;
    e.id_position = c.position;
    e.end = c.position + length;
    *ret_is_empty = length == 0;
    if (length > 0) {
        /* .eh_frame has a 4-byte ID even if the length has 8 bytes. */
        e.id = e.is_64 && s->is_debug_frame ? cursor_u64(&c) : cursor_u32(&c);
        if (c.failed || c.position > e.end)
            return false;
    }
    *ret = e;
    return true;
}

static bool entry_is_cie(const struct eh_frame *s, const struct entry *e)
{
    if (!s->is_debug_frame)
        return e->id == 0;
    return e->id == (e->is_64 ? UINT64_MAX : UINT32_MAX);
}

enum eh_frame_entry eh_frame_next(const struct eh_frame *s, size_t *position, size_t *ret_cie_position)
{
    for (;;) {
        struct entry e;
        bool is_empty;
        if (!read_entry(s, *position, &e, &is_empty) || (is_empty && s->ends_at_zero))
            return EH_FRAME_END;
        *position = e.end;
        if (is_empty)
            continue; /* a terminator; linkers leave some between the contributions of two inputs */
        if (entry_is_cie(s, &e))
            return EH_FRAME_CIE;
        uint64_t cie = s->is_debug_frame ? e.id : e.id_position - e.id;
        if (cie >= s->size)
            return EH_FRAME_BAD;
        *ret_cie_position = cie;
        return EH_FRAME_FDE;
    }
}

static bool read_unbased(struct cursor *c, uint8_t format, uint64_t *ret)
{
    switch (format) {
    case PE_ABSOLUTE:
    case PE_UDATA8:
    case PE_SIGNED:
    case PE_SDATA8:
        *ret = cursor_u64(c);
        break;
    case PE_ULEB128:
        *ret = cursor_uleb128(c);
        break;
    case PE_UDATA2:
        *ret = cursor_u16(c);
        break;
    case PE_UDATA4:
        *ret = cursor_u32(c);
        break;
    case PE_SLEB128:
        *ret = (uint64_t)cursor_sleb128(c);
        break;
    case PE_SDATA2:
        *ret = (uint64_t)(int64_t)(int16_t)cursor_u16(c);
        break;
    case PE_SDATA4:
        *ret = (uint64_t)(int64_t)(int32_t)cursor_u32(c);
        break;
    default:
        return false;
    }
    return !c->failed;
}

bool eh_frame_pointer(const struct eh_frame *s, struct cursor *c, uint8_t encoding, uint64_t *ret)
{
    if (encoding == PE_OMIT)
        return false;
    uint64_t base = 0;
    switch (encoding & PE_APPLICATION) {
    case PE_ABSOLUTE:
        break;
    case PE_PC_RELATIVE:
        base = s->vaddr + c->position;
        break;
    case PE_TEXT_RELATIVE:
        base = s->text_vaddr;
        break;
    case PE_DATA_RELATIVE:
        base = s->data_vaddr;
        break;
    case PE_ALIGNED:
        cursor_skip(c, -(s->vaddr + c->position) & 7);
        break;
    default:
        return false;
    }
    uint64_t value;
    if (!read_unbased(c, encoding & PE_FORMAT, &value) || encoding & PE_INDIRECT)
        return false;
    *ret = base + value;
    return true;
}

/* Skips a pointer whose value is not needed (personality); it may be indirect. */
static bool skip_pointer(const struct eh_frame *s, struct cursor *c, uint8_t encoding)
{
    uint64_t ignored;
    return encoding == PE_OMIT || eh_frame_pointer(s, c, encoding & (uint8_t)~PE_INDIRECT, &ignored);
}

/* Reads the augmentation letters after 'z'. Unknown letters can be skipped, because 'z' gives the length of all data.
 */
static bool read_augmentation(const struct eh_frame *s, struct cursor *c, const char *letters, struct eh_frame_cie *cie)
{
    for (; *letters; letters++) {
        switch (*letters) {
        case 'R':
            cie->pointer_encoding = cursor_u8(c);
            break;
        case 'L':
            cursor_u8(c);
            break;
        case 'P':
            if (!skip_pointer(s, c, cursor_u8(c)))
                return false;
            break;
        case 'S':
            cie->is_signal_frame = true;
            break;
        case 'B': /* arm64: return addresses are signed with the B key; both kinds of signature are stripped alike */
        case 'G': /* arm64: tagged stack */
            break;
        default:
            return true;
        }
    }
    return true;
}

int eh_frame_read_cie(const struct eh_frame *s, size_t position, struct eh_frame_cie *ret)
{
    struct entry e;
    bool is_empty;
    if (!read_entry(s, position, &e, &is_empty) || is_empty || !entry_is_cie(s, &e))
        return -ENOEXEC;
    struct cursor c = cursor_make(s->data, e.end);
    cursor_seek(&c, e.id_position + (e.is_64 && s->is_debug_frame ? 8 : 4));
    struct eh_frame_cie cie = {.position = position, .pointer_encoding = PE_ABSOLUTE};

    uint8_t version = cursor_u8(&c);
    const char *augmentation = cursor_string(&c);
    if (!augmentation || (version != 1 && version != 3 && version != 4))
        return -ENOEXEC;
    if (version == 4) {
        uint8_t address_bytes = cursor_u8(&c), selector_bytes = cursor_u8(&c);
        if (address_bytes != 8 || selector_bytes != 0)
            return -ENOEXEC;
    }
    if (strcmp(augmentation, "eh") == 0) { /* GCC 2: a pointer, not needed */
        cursor_u64(&c);
        augmentation += 2;
    }
    cie.code_align = cursor_uleb128(&c);
    cie.data_align = cursor_sleb128(&c);
    cie.return_register = version == 1 ? cursor_u8(&c) : cursor_uleb128(&c);
    if (augmentation[0] == 'z') {
        cie.has_augmentation_data = true;
        uint64_t size = cursor_uleb128(&c);
        if (c.failed || size > cursor_left(&c))
            return -ENOEXEC;
        size_t after = c.position + size;
        struct cursor letters = cursor_make(s->data, after);
        cursor_seek(&letters, c.position);
        if (!read_augmentation(s, &letters, augmentation + 1, &cie) || letters.failed)
            return -ENOEXEC;
        cursor_seek(&c, after);
    } else if (augmentation[0] != '\0') {
        return -ENOEXEC;
    }
    if (c.failed)
        return -ENOEXEC;
    cie.instructions = c;
    *ret = cie;
    return 0;
}

int eh_frame_read_fde(const struct eh_frame *s, size_t position, const struct eh_frame_cie *cie,
                      struct eh_frame_fde *ret)
{
    struct entry e;
    bool is_empty;
    if (!read_entry(s, position, &e, &is_empty) || is_empty || entry_is_cie(s, &e))
        return -ENOEXEC;
    struct cursor c = cursor_make(s->data, e.end);
    cursor_seek(&c, e.id_position + (e.is_64 && s->is_debug_frame ? 8 : 4));
    struct eh_frame_fde fde = {.position = position, .cie_position = cie->position};
    uint64_t size;
    if (!eh_frame_pointer(s, &c, cie->pointer_encoding, &fde.start) ||
        !eh_frame_pointer(s, &c, cie->pointer_encoding & PE_FORMAT, &size))
        return -ENOEXEC;
    if (cie->has_augmentation_data)
        cursor_skip(&c, cursor_uleb128(&c));
    if (c.failed || size == 0 || __builtin_add_overflow(fde.start, size, &fde.end))
        return -ENOEXEC;
    fde.instructions = c;
    *ret = fde;
    return 0;
}
