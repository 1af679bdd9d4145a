/* A reader of ELF64 little-endian files (x86-64, arm64). Uses pread, not mmap: a file truncated while it is read
 * causes an error instead of SIGBUS, and file pages do not count as the agent's memory. Every number in a file is
 * untrusted and bounded. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

/* Takes `fd` on success: of a file, or a socket for a remote file (remote_file.h; then -ETIMEDOUT is possible, here
 * and in later reads). -ENOEXEC: not such a file, or damaged. */
int elf_open(int fd, struct elf_file **ret);
/* The same for bytes in memory (vDSO, .gnu_debugdata); takes `data` (malloc'ed) on success. */
int elf_open_memory(void *data, size_t size, struct elf_file **ret);
void elf_file_free(struct elf_file *f);
DEFINE_FREEP(elf_file)

struct elf_segment { /* a PT_LOAD program header */
    uint64_t offset, vaddr, file_bytes, memory_bytes;
    bool executable;
};
struct elf_section {
    const char *name; /* owned by the file */
    uint32_t type, link, info;
    uint64_t flags, vaddr, offset, size_bytes, entry_bytes;
};

/* The descriptor, still owned by the file: of a regular file, or a socket (remote_file.h); -1: in memory. */
int elf_descriptor(const struct elf_file *f);

uint16_t elf_machine(const struct elf_file *f); /* EM_X86_64, EM_AARCH64 */
uint16_t elf_type(const struct elf_file *f);    /* ET_EXEC, ET_DYN */
uint64_t elf_entry(const struct elf_file *f);
size_t elf_segments(const struct elf_file *f, const struct elf_segment **ret);
size_t elf_sections(const struct elf_file *f, const struct elf_section **ret);
const struct elf_section *elf_section(const struct elf_file *f, const char *name); /* NULL when absent */

/* PT_GNU_EH_FRAME, for files without section headers; NULL when absent. */
const struct elf_segment *elf_eh_frame_header(const struct elf_file *f);

/* Size of a program's TLS block, which ends at the thread pointer. -ENOENT: it has none; -ENOEXEC: the place depends
 * on the C library. */
int elf_tls_block_bytes(const struct elf_file *f, uint64_t *ret);

/* Reads exactly `size` bytes at `offset` of the file; -EIO when it does not have them. */
int elf_read(const struct elf_file *f, uint64_t offset, void *data, size_t size);

/* 0, or -ETIMEDOUT once a read was not answered in time: results are then incomplete, and the file must be opened
 * again later. */
int elf_error(const struct elf_file *f);
uint64_t elf_size(const struct elf_file *f);

/* How many bytes elf_section_data returns for a section; 0: it cannot be read. */
uint64_t elf_section_data_bytes(const struct elf_file *f, const struct elf_section *s);

/* A whole section in memory, decompressed if SHF_COMPRESSED, at most `max_bytes` (-EFBIG). -ENOENT: it has no bytes
 * in this file (SHT_NOBITS). The caller frees `*ret`, which has one byte more than `*ret_size`. */
int elf_section_data(const struct elf_file *f, const struct elf_section *s, size_t max_bytes, void **ret,
                     size_t *ret_size);

/* Converts between file offsets and virtual addresses by the PT_LOAD segments; -ENOENT when no segment contains it. */
int elf_vaddr_from_offset(const struct elf_file *f, uint64_t offset, uint64_t *ret);
int elf_offset_from_vaddr(const struct elf_file *f, uint64_t vaddr, uint64_t *ret);

/* A hash of the size, the headers of segments and sections, and the USDT notes: distinguishes files with the same
 * build ID. */
uint64_t elf_digest(const struct elf_file *f);

/* NT_GNU_BUILD_ID from the notes of PT_NOTE segments or sections; returns its length (<= 64) or 0. */
size_t elf_build_id(const struct elf_file *f, uint8_t ret[64]);
