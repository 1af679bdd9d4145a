/* Reads ELF64 files by pread; see elf.h.
 *
 * Headers are read once, when the file is opened; contents on request, and never more than the file's own size or
 * the caller's bound. A header's values are checked when they are used, so that one bad section does not make the
 * others unreadable. */
#include "resolve/elf/elf.h"

#include "base/cursor.h"
#include "resolve/elf/file_blocks.h"
#include "resolve/remote/remote_file.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#define ELF_MAX_PROGRAM_HEADERS 4096
#define ELF_MAX_SECTIONS        65536
#define ELF_MAX_NAMES_BYTES     (16u << 20)
#define ELF_MAX_NOTE_BYTES      (64u << 10)
#define ELF_MAX_NOTES           16
#define ELF_INFLATE_STEP        (64u << 10)
#define DIGEST_NOTES_MAX_BYTES  (4u << 20)

struct note_range {
    uint64_t offset, size, align;
};

struct elf_file {
    int fd;                     /* -1: in memory */
    uint64_t number;            /* of file_blocks_number */
    const uint8_t *data;        /* owned; NULL: in a file */
    struct remote_file *remote; /* NULL: read by pread */
    uint64_t size;
    uint16_t machine, type;
    uint64_t entry;
    struct elf_segment *segments;
    size_t segment_count;
    struct elf_segment eh_frame_header; /* PT_GNU_EH_FRAME; file_bytes 0: none */
    uint64_t tls_block_bytes;
    int tls_block_error; /* -ENOENT: no TLS block */
    struct elf_section *sections;
    size_t section_count;
    char *names; /* .shstrtab, with an added NUL */
    struct note_range notes[ELF_MAX_NOTES];
    size_t note_count;
};

int elf_read(const struct elf_file *f, uint64_t offset, void *data, size_t size)
{
    if (offset > f->size || size > f->size - offset)
        return -EIO;
    if (f->data) {
        memcpy(data, f->data + offset, size);
        return 0;
    }
    if (f->remote)
        return remote_file_read(f->remote, offset, data, size);
    return file_blocks_read(f->fd, f->number, f->size, offset, data, size);
}

/* Reads a table that the headers describe; any error except lack of memory means that the file is damaged. */
static int read_table(const struct elf_file *f, uint64_t offset, size_t size, void **ret)
{
    if (offset > f->size || size > f->size - offset)
        return -ENOEXEC;
    _cleanup_free_ void *data = malloc(size + 1);
    if (!data)
        return -ENOMEM;
    if (elf_read(f, offset, data, size) < 0)
        return -ENOEXEC;
    *ret = take_ptr(data);
    return 0;
}

/* The TLS block of a program ends at the thread pointer. */
static int tls_block_bytes(const Elf64_Phdr *p, uint64_t *ret)
{
    const uint64_t align = p->p_align ? p->p_align : 1;
    if (align & (align - 1) || p->p_vaddr & (align - 1) || p->p_memsz > UINT32_MAX || align > UINT32_MAX)
        return -ENOEXEC; /* its start would depend on the C library */
    *ret = (p->p_memsz + align - 1) & ~(align - 1);
    return 0;
}

static int read_program_headers(struct elf_file *f, const Elf64_Ehdr *header)
{
    f->tls_block_error = -ENOENT;
    if (header->e_phnum == 0)
        return 0;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > ELF_MAX_PROGRAM_HEADERS)
        return -ENOEXEC;
    _cleanup_free_ void *table = NULL;
    int r = read_table(f, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), &table);
    if (r < 0)
        return r;

    f->segments = calloc(header->e_phnum, sizeof(*f->segments));
    if (!f->segments)
        return -ENOMEM;
    const Elf64_Phdr *headers = table;
    for (size_t i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *p = &headers[i];
        struct elf_segment segment = {
            .offset = p->p_offset,
            .vaddr = p->p_vaddr,
            .file_bytes = p->p_filesz,
            .memory_bytes = p->p_memsz,
            .executable = p->p_flags & PF_X,
        };
        if (p->p_filesz > UINT64_MAX - p->p_offset || p->p_filesz > UINT64_MAX - p->p_vaddr)
            continue; /* wraps around the end of the file or of memory: no kernel maps that */
        if (p->p_type == PT_TLS)
            f->tls_block_error = tls_block_bytes(p, &f->tls_block_bytes);
        if (p->p_type == PT_LOAD)
            f->segments[f->segment_count++] = segment;
        else if (p->p_type == PT_GNU_EH_FRAME)
            f->eh_frame_header = segment;
        else if (p->p_type == PT_NOTE && f->note_count < ELF_MAX_NOTES)
            f->notes[f->note_count++] = (struct note_range){p->p_offset, p->p_filesz, p->p_align};
    }
    return 0;
}

/* Files with 65280 sections or more store the actual counts in section 0. */
static int section_counts(const struct elf_file *f, const Elf64_Ehdr *header, uint64_t *ret_count, uint32_t *ret_names)
{
    uint64_t count = header->e_shnum;
    uint32_t names = header->e_shstrndx;
    if (count == 0 || names == SHN_XINDEX) {
        Elf64_Shdr first;
        if (elf_read(f, header->e_shoff, &first, sizeof(first)) < 0)
            return -ENOEXEC;
        if (count == 0)
            count = first.sh_size;
        if (names == SHN_XINDEX)
            names = first.sh_link;
    }
    if (count > ELF_MAX_SECTIONS)
        return -ENOEXEC;
    *ret_count = count;
    *ret_names = names;
    return 0;
}

static int read_section_names(struct elf_file *f, const Elf64_Shdr *headers, size_t count, uint32_t names,
                              size_t *ret_size)
{
    size_t size = 0;
    if (names != SHN_UNDEF && names < count && headers[names].sh_type == SHT_STRTAB) {
        size = headers[names].sh_size;
        if (size > ELF_MAX_NAMES_BYTES)
            return -ENOEXEC;
        void *table = NULL;
        int r = read_table(f, headers[names].sh_offset, size, &table);
        if (r < 0)
            return r;
        f->names = table;
    } else {
        f->names = malloc(1);
        if (!f->names)
            return -ENOMEM;
    }
    f->names[size] = '\0';
    *ret_size = size;
    return 0;
}

static int read_section_headers(struct elf_file *f, const Elf64_Ehdr *header)
{
    if (header->e_shoff == 0)
        return 0;
    if (header->e_shentsize != sizeof(Elf64_Shdr))
        return -ENOEXEC;
    uint64_t count;
    uint32_t names;
    int r = section_counts(f, header, &count, &names);
    if (r < 0)
        return r;
    _cleanup_free_ void *table = NULL;
    r = read_table(f, header->e_shoff, count * sizeof(Elf64_Shdr), &table);
    if (r < 0)
        return r;
    const Elf64_Shdr *headers = table;
    size_t names_size = 0;
    r = read_section_names(f, headers, count, names, &names_size);
    if (r < 0)
        return r;

    f->sections = calloc(count + 1, sizeof(*f->sections));
    if (!f->sections)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const Elf64_Shdr *s = &headers[i];
        f->sections[i] = (struct elf_section){
            .name = f->names + (s->sh_name < names_size ? s->sh_name : names_size),
            .type = s->sh_type,
            .link = s->sh_link,
            .info = s->sh_info,
            .flags = s->sh_flags,
            .vaddr = s->sh_addr,
            .offset = s->sh_offset,
            .size_bytes = s->sh_size,
            .entry_bytes = s->sh_entsize,
        };
    }
    f->section_count = count;
    return 0;
}

static int read_headers(struct elf_file *f)
{
    Elf64_Ehdr header;
    if (elf_read(f, 0, &header, sizeof(header)) < 0)
        return -ENOEXEC;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_ident[EI_VERSION] != EV_CURRENT)
        return -ENOEXEC;
    if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
        return -ENOEXEC;
    f->machine = header.e_machine;
    f->type = header.e_type;
    f->entry = header.e_entry;
    int r = read_program_headers(f, &header);
    return r < 0 ? r : read_section_headers(f, &header);
}

static int find_size(struct elf_file *f)
{
    struct stat st;
    if (remote_file_is(f->fd))
        return remote_file_new(f->fd, &f->remote, &f->size);
    if (fstat(f->fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        return -ENOEXEC;
    f->size = (uint64_t)st.st_size;
    return 0;
}

int elf_open(int fd, struct elf_file **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->fd = fd;
    f->number = file_blocks_number();
    int r = find_size(f);
    if (r == 0)
        r = read_headers(f);
    if (r < 0) {
        f->fd = -1; /* remains the caller's */
        return elf_error(f) ? elf_error(f) : r;
    }
    *ret = take_ptr(f);
    return 0;
}

int elf_open_memory(void *data, size_t size, struct elf_file **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->fd = -1;
    f->data = data;
    f->size = size;
    int r = read_headers(f);
    if (r < 0) {
        f->data = NULL; /* remains the caller's */
        return r;
    }
    *ret = take_ptr(f);
    return 0;
}

void elf_file_free(struct elf_file *f)
{
    if (!f)
        return;
    closep(&f->fd);
    remote_file_free(f->remote);
    free((void *)f->data);
    free(f->segments);
    free(f->sections);
    free(f->names);
    free(f);
}

int elf_error(const struct elf_file *f)
{
    return f->remote ? remote_file_error(f->remote) : 0;
}

uint64_t elf_size(const struct elf_file *f)
{
    return f->size;
}

int elf_descriptor(const struct elf_file *f)
{
    return f->fd;
}

uint16_t elf_machine(const struct elf_file *f)
{
    return f->machine;
}

uint16_t elf_type(const struct elf_file *f)
{
    return f->type;
}

uint64_t elf_entry(const struct elf_file *f)
{
    return f->entry;
}

size_t elf_segments(const struct elf_file *f, const struct elf_segment **ret)
{
    *ret = f->segments;
    return f->segment_count;
}

int elf_tls_block_bytes(const struct elf_file *f, uint64_t *ret)
{
    if (f->tls_block_error == 0)
        *ret = f->tls_block_bytes;
    return f->tls_block_error;
}

size_t elf_sections(const struct elf_file *f, const struct elf_section **ret)
{
    *ret = f->sections;
    return f->section_count;
}

const struct elf_section *elf_section(const struct elf_file *f, const char *name)
{
    for (size_t i = 0; i < f->section_count; i++)
        if (strcmp(f->sections[i].name, name) == 0)
            return &f->sections[i];
    return NULL;
}

const struct elf_segment *elf_eh_frame_header(const struct elf_file *f)
{
    return f->eh_frame_header.file_bytes ? &f->eh_frame_header : NULL;
}

/* Decompresses until `out` is full. Both decompressors read the input in steps, so it is never in memory as a whole. */
static int inflate_section(const struct elf_file *f, uint64_t offset, uint64_t size, uint8_t *out, size_t out_size)
{
    _cleanup_free_ uint8_t *step = malloc(ELF_INFLATE_STEP);
    if (!step)
        return -ENOMEM;
    z_stream z = {.next_out = out};
    if (inflateInit(&z) != Z_OK)
        return -ENOMEM;
    size_t out_left = out_size;
    int status = Z_OK, r = 0;
    while (status == Z_OK && r == 0) {
        if (z.avail_in == 0) {
            z.avail_in = (uInt)(size < ELF_INFLATE_STEP ? size : ELF_INFLATE_STEP);
            r = z.avail_in ? elf_read(f, offset, step, z.avail_in) : -ENOEXEC;
            z.next_in = step;
            offset += z.avail_in;
            size -= z.avail_in;
        }
        if (z.avail_out == 0) {
            z.avail_out = (uInt)(out_left < INT_MAX ? out_left : INT_MAX);
            out_left -= z.avail_out;
        }
        if (r == 0)
            status = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = status == Z_STREAM_END && out_left == 0 && z.avail_out == 0;
    inflateEnd(&z);
    return r == 0 && !whole ? -ENOEXEC : r;
}

static void zstd_stream_freep(ZSTD_DStream **s)
{
    ZSTD_freeDStream(*s);
}

static int zstd_section(const struct elf_file *f, uint64_t offset, uint64_t size, uint8_t *out, size_t out_size)
{
    _cleanup_free_ uint8_t *step = malloc(ELF_INFLATE_STEP);
    _cleanup_(zstd_stream_freep) ZSTD_DStream *stream = ZSTD_createDStream();
    if (!step || !stream)
        return -ENOMEM;
    ZSTD_outBuffer to = {.dst = out, .size = out_size};
    while (size > 0) {
        size_t n = size < ELF_INFLATE_STEP ? size : ELF_INFLATE_STEP;
        int r = elf_read(f, offset, step, n);
        if (r < 0)
            return r;
        offset += n;
        size -= n;
        ZSTD_inBuffer from = {.src = step, .size = n};
        while (from.pos < from.size) {
            size_t before_in = from.pos, before_out = to.pos;
            size_t status = ZSTD_decompressStream(stream, &to, &from);
            if (ZSTD_isError(status) || (from.pos == before_in && to.pos == before_out))
                return -ENOEXEC;
        }
    }
    return to.pos == to.size ? 0 : -ENOEXEC;
}

static int compressed_section_data(const struct elf_file *f, const struct elf_section *s, size_t max_bytes, void **ret,
                                   size_t *ret_size)
{
    Elf64_Chdr header;
    if (s->size_bytes < sizeof(header) || elf_read(f, s->offset, &header, sizeof(header)) < 0)
        return -ENOEXEC;
    if (header.ch_size > max_bytes)
        return -EFBIG;
    _cleanup_free_ void *data = malloc(header.ch_size + 1);
    if (!data)
        return -ENOMEM;
    uint64_t offset = s->offset + sizeof(header), size = s->size_bytes - sizeof(header);
    int r = -ENOEXEC;
    if (header.ch_type == ELFCOMPRESS_ZLIB)
        r = inflate_section(f, offset, size, data, header.ch_size);
    else if (header.ch_type == 2) /* ELFCOMPRESS_ZSTD, missing from some <elf.h> */
        r = zstd_section(f, offset, size, data, header.ch_size);
    if (r < 0)
        return r == -EIO ? -ENOEXEC : r;
    *ret_size = header.ch_size;
    *ret = take_ptr(data);
    return 0;
}

uint64_t elf_section_data_bytes(const struct elf_file *f, const struct elf_section *s)
{
    Elf64_Chdr header;
    if (!(s->flags & SHF_COMPRESSED))
        return s->size_bytes;
    return s->size_bytes < sizeof(header) || elf_read(f, s->offset, &header, sizeof(header)) < 0 ? 0 : header.ch_size;
}

int elf_section_data(const struct elf_file *f, const struct elf_section *s, size_t max_bytes, void **ret,
                     size_t *ret_size)
{
    if (s->type == SHT_NOBITS || s->type == SHT_NULL)
        return -ENOENT;
    if (s->offset > f->size || s->size_bytes > f->size - s->offset)
        return -ENOEXEC;
    if (s->flags & SHF_COMPRESSED)
        return compressed_section_data(f, s, max_bytes, ret, ret_size);
    if (s->size_bytes > max_bytes)
        return -EFBIG;
    int r = read_table(f, s->offset, s->size_bytes, ret);
    if (r == 0)
        *ret_size = s->size_bytes;
    return r;
}

int elf_vaddr_from_offset(const struct elf_file *f, uint64_t offset, uint64_t *ret)
{
    /* Adjacent segments may share a page in the file: prefer the executable one, since callers look for code. */
    const struct elf_segment *found = NULL;
    for (size_t i = 0; i < f->segment_count; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (offset >= s->offset && offset - s->offset < s->file_bytes && (!found || s->executable))
            found = s;
    }
    if (!found)
        return -ENOENT;
    *ret = found->vaddr + (offset - found->offset);
    return 0;
}

int elf_offset_from_vaddr(const struct elf_file *f, uint64_t vaddr, uint64_t *ret)
{
    for (size_t i = 0; i < f->segment_count; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_bytes) {
            *ret = s->offset + (vaddr - s->vaddr);
            return 0;
        }
    }
    return -ENOENT;
}

/* A note is: name size, contents size, type, name, contents; the last two padded to the alignment of the segment. */
static size_t find_build_id(const struct elf_file *f, const struct note_range *range, uint8_t ret[64])
{
    _cleanup_free_ void *data = NULL;
    if (range->size > ELF_MAX_NOTE_BYTES || read_table(f, range->offset, range->size, &data) < 0)
        return 0;
    size_t align = range->align == 8 ? 8 : 4;
    struct cursor c = cursor_make(data, range->size);
    while (cursor_left(&c) > 0) {
        uint32_t name_size = cursor_u32(&c), size = cursor_u32(&c), type = cursor_u32(&c);
        const char *name = cursor_bytes(&c, name_size);
        size_t padding = -c.position & (align - 1);
        cursor_skip(&c, padding < cursor_left(&c) ? padding : cursor_left(&c));
        const uint8_t *contents = cursor_bytes(&c, size);
        if (c.failed)
            return 0;
        if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name, "GNU", 4) == 0 && size > 0 && size <= 64) {
            memcpy(ret, contents, size);
            return size;
        }
        padding = -c.position & (align - 1);
        cursor_skip(&c, padding < cursor_left(&c) ? padding : cursor_left(&c));
    }
    return 0;
}

/* In pieces: most have a few KiB, some megabytes. */
static uint64_t hash_section(const struct elf_file *f, const struct elf_section *s, uint64_t hash)
{
    char piece[4096];
    const uint64_t size = s->size_bytes < DIGEST_NOTES_MAX_BYTES ? s->size_bytes : DIGEST_NOTES_MAX_BYTES;
    for (uint64_t done = 0; done < size;) {
        const size_t n = size - done < sizeof(piece) ? size - done : sizeof(piece);
        if (elf_read(f, s->offset + done, piece, n) < 0)
            break;
        hash = XXH3_64bits_withSeed(piece, n, hash);
        done += n;
    }
    return hash;
}

uint64_t elf_digest(const struct elf_file *f)
{
    const uint64_t head[] = {f->size, f->entry, f->machine, f->type, f->segment_count, f->section_count};
    uint64_t hash = XXH3_64bits(head, sizeof(head));
    for (size_t i = 0; i < f->segment_count; i++) {
        const struct elf_segment *s = &f->segments[i];
        const uint64_t fields[] = {s->offset, s->vaddr, s->file_bytes, s->memory_bytes, s->executable};
        hash = XXH3_64bits_withSeed(fields, sizeof(fields), hash);
    }
    for (size_t i = 0; i < f->section_count; i++) {
        const struct elf_section *s = &f->sections[i];
        const uint64_t fields[] = {s->type, s->flags, s->vaddr, s->offset, s->size_bytes};
        hash = XXH3_64bits_withSeed(fields, sizeof(fields), hash);
        hash = XXH3_64bits_withSeed(s->name, strlen(s->name), hash);
    }
    const struct elf_section *notes = elf_section(f, ".note.stapsdt");
    return notes && notes->type != SHT_NOBITS ? hash_section(f, notes, hash) : hash;
}

size_t elf_build_id(const struct elf_file *f, uint8_t ret[64])
{
    for (size_t i = 0; i < f->note_count; i++) {
        size_t size = find_build_id(f, &f->notes[i], ret);
        if (size)
            return size;
    }
    for (size_t i = 0; i < f->section_count; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type != SHT_NOTE)
            continue;
        size_t size = find_build_id(f, &(struct note_range){s->offset, s->size_bytes, 4}, ret);
        if (size)
            return size;
    }
    return 0;
}
