/* Searches .eh_frame_hdr; see frame_table.h. */
#include "resolve/elf/frame_table.h"

#include <errno.h>
#include <stdbool.h>

#define HEADER_BYTES 12

/* The encodings that all linkers write: 4 bytes each, addresses relative to the header. */
enum { PE_PC_RELATIVE_S4 = 0x1b, PE_U4 = 0x03, PE_DATA_RELATIVE_S4 = 0x3b };

struct file_entry {
    int32_t code, fde; /* relative to header_vaddr */
};

int frame_table_open(const struct elf_file *file, struct frame_table *ret)
{
    const struct elf_segment *header = elf_eh_frame_header(file);
    struct {
        uint8_t version, frame_encoding, count_encoding, table_encoding;
        uint32_t frame, count;
    } head;
    _Static_assert(sizeof(head) == HEADER_BYTES, "file format");
    if (!header || header->file_bytes < sizeof(head))
        return -ENOENT;
    if (elf_read(file, header->offset, &head, sizeof(head)) < 0)
        return elf_error(file) < 0 ? elf_error(file) : -ENOENT;
    if (head.version != 1 || head.frame_encoding != PE_PC_RELATIVE_S4 || head.count_encoding != PE_U4 ||
        head.table_encoding != PE_DATA_RELATIVE_S4 || head.count == 0 ||
        head.count > (header->file_bytes - sizeof(head)) / sizeof(struct file_entry))
        return -ENOENT;
    *ret = (struct frame_table){
        .file = file, .header_vaddr = header->vaddr, .offset = header->offset + sizeof(head), .count = head.count};
    return 0;
}

int frame_table_search(const struct frame_table *t, uint64_t vaddr, struct frame_table_entry *ret)
{
    uint32_t low = 0, high = t->count;
    uint64_t next = UINT64_MAX;
    bool found = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct file_entry e;
        if (elf_read(t->file, t->offset + (uint64_t)middle * sizeof(e), &e, sizeof(e)) < 0)
            return -EIO;
        const uint64_t code = t->header_vaddr + (uint64_t)(int64_t)e.code;
        if (code > vaddr) {
            high = middle;
            next = code;
            continue;
        }
        *ret = (struct frame_table_entry){.code = code, .fde = t->header_vaddr + (uint64_t)(int64_t)e.fde};
        found = true;
        low = middle + 1;
    }
    if (found)
        ret->next = next;
    return found ? 0 : -ENOENT;
}
