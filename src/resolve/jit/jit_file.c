/* Incremental reading of perf maps and jitdumps; see jit_file.h. */
#include "resolve/jit/jit_file.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "resolve/jit/jit_name.h"
#include "resolve/jit/jitdump.h"
#include "resolve/jit/perf_map.h"
#include "resolve/remote/remote_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES     (128u << 10) /* longer than any valid line */
#define LINE_READ_BYTES 1024u
#define COST_MIN_BYTES  4096u /* charged for every read, including one without progress */
#define CODE_READ_BYTES 4096u /* read from a jitdump to find a name */
#define V8_LINES_ADD    64    /* V8's line addresses include the size of an ELF header before the code */

void jit_file_close(struct jit_file *f)
{
    remote_file_free(f->remote);
    f->remote = NULL;
    closep(&f->fd);
    f->fd = -1;
}

static void drop_ranges(struct jit_file *f)
{
    code_ranges_clear(&f->ranges);
    f->position = 0;
    f->last_bytes = 0;
    f->has_header = f->closed = f->is_whole = false;
    f->debug_address = UINT64_MAX;
    f->next_ns = 0;
    f->cut_at = 0;
    f->forgotten++;
}

void jit_file_clear(struct jit_file *f)
{
    jit_file_close(f);
    drop_ranges(f);
    f->device = f->inode = f->changed_ns = f->size = 0;
}

int jit_file_open(struct jit_file *f, int fd)
{
    struct stat st;
    jit_file_close(f);
    f->fd = fd;
    if (remote_file_is(fd)) {
        int r = remote_file_new(fd, &f->remote, &f->size);
        if (r < 0)
            jit_file_close(f);
        return r;
    }
    if (fstat(fd, &st) < 0) {
        jit_file_close(f);
        return -EIO;
    }
    if (st.st_ino != f->inode || st.st_dev != f->device)
        drop_ranges(f);
    f->inode = st.st_ino;
    f->device = st.st_dev;
    return 0;
}

bool jit_file_is_gone(const struct jit_file *f)
{
    struct stat st;
    return !f->remote && (f->fd < 0 || fstat(f->fd, &st) < 0 || st.st_nlink == 0);
}

/* Returns how many bytes were read, up to `size`. */
static int64_t read_at(struct jit_file *f, uint64_t offset, void *data, size_t size)
{
    if (f->remote) {
        const uint64_t left = offset < f->size ? f->size - offset : 0;
        const size_t n = left < size ? (size_t)left : size;
        int r = n ? remote_file_read(f->remote, offset, data, n) : 0;
        return r < 0 ? r : (int64_t)n;
    }
    const ssize_t n = pread(f->fd, data, size, (off_t)offset);
    return n < 0 ? -errno : n;
}

/* Whether the file has changed since the last check. Drops the ranges if it was rewritten. */
static int check_changed(struct jit_file *f, bool *ret_changed)
{
    struct stat st;
    if (f->remote) { /* its size was determined when it was opened, in this turn */
        *ret_changed = true;
        return 0;
    }
    if (fstat(f->fd, &st) < 0)
        return -EIO;
    const uint64_t changed_ns = clock_ns_of(st.st_mtim), size = (uint64_t)st.st_size;
    *ret_changed = size != f->size || changed_ns != f->changed_ns;
    const bool is_dump = f->format == JIT_DUMP;                                       /* append-only */
    if (*ret_changed && f->size && (size < f->size || (size == f->size && !is_dump))) /* rewritten */
        drop_ranges(f);
    f->size = size;
    f->changed_ns = changed_ns;
    return 0;
}

/* Drops the ranges if the bytes before `position` differ, as in a rewritten file. */
static int check_last(struct jit_file *f)
{
    char now[sizeof(f->last)];
    if (f->last_bytes == 0)
        return 0;
    const int64_t n = read_at(f, f->position - f->last_bytes, now, f->last_bytes);
    if (n < 0)
        return (int)n;
    if ((size_t)n != f->last_bytes || memcmp(now, f->last, f->last_bytes) != 0)
        drop_ranges(f);
    return 0;
}

static void keep_last(struct jit_file *f, const char *piece, size_t taken)
{
    const size_t n = taken < sizeof(f->last) ? taken : sizeof(f->last);
    if (n == 0)
        return;
    memcpy(f->last, piece + taken - n, n);
    f->last_bytes = n;
}

static int read_header(struct jit_file *f, const char *piece, size_t bytes)
{
    struct jitdump_header header;
    int r = jitdump_header_parse(piece, bytes, &header);
    if (r < 0)
        return r;
    f->has_header = true;
    f->pid = header.pid;
    f->has_times = header.has_times;
    f->position = header.bytes;
    return 0;
}

/* Parses a piece of the file; returns the bytes consumed; 0: no progress for now. */
static int64_t parse_piece(struct jit_file *f, const char *piece, size_t bytes, uint64_t until_ns)
{
    if (f->format == JIT_PERF_MAP)
        return perf_map_take(&f->ranges, piece, bytes, (uint32_t)f->position, &f->bad);
    struct jitdump_reading reading = {.until_ns = until_ns,
                                      .has_times = f->has_times,
                                      .debug_address = f->debug_address,
                                      .debug_place = f->debug_place};
    const int64_t n = jitdump_take(&f->ranges, &reading, piece, bytes, (uint32_t)f->position, &f->bad);
    f->debug_address = reading.debug_address;
    f->debug_place = reading.debug_place;
    f->next_ns = reading.next_ns;
    f->closed = reading.closed;
    return n;
}

static int read_piece(struct jit_file *f, char *piece, uint64_t until_ns, uint64_t *budget, bool *ret_more)
{
    const int64_t n = read_at(f, f->position, piece, PIECE_BYTES);
    *ret_more = false;
    if (n < 0)
        return n == -ETIMEDOUT ? -ETIMEDOUT : -EIO;
    if (f->format == JIT_DUMP && !f->has_header) {
        int r = read_header(f, piece, (size_t)n);
        *ret_more = r == 0;
        return r == -EAGAIN ? 0 : r;
    }
    const int64_t taken = parse_piece(f, piece, (size_t)n, until_ns);
    if (taken < 0)
        return (int)taken;
    const uint64_t cost = (uint64_t)(taken < n ? taken : n) + COST_MIN_BYTES;
    *budget -= cost < *budget ? cost : *budget;
    /* A jitdump is append-only, and its last record may end after the piece: it needs no check. */
    if (f->format == JIT_PERF_MAP)
        keep_last(f, piece, (size_t)taken);
    f->position += (uint64_t)taken;
    *ret_more = taken > 0 && !f->closed && f->position < f->size;
    return 0;
}

int jit_file_read(struct jit_file *f, uint64_t until_ns, size_t ranges_max, uint64_t *budget)
{
    bool changed, more = true;
    int r = check_changed(f, &changed);
    if (r < 0)
        return r;
    if (f->size >= JIT_FILE_MAX_BYTES)
        return -EFBIG;
    if (f->cut_at && ranges_max / 2 >= f->cut_at)
        drop_ranges(f);
    if (f->position > f->size && f->remote && f->format == JIT_PERF_MAP)
        drop_ranges(f);
    if (f->closed || f->next_ns > until_ns || f->position >= f->size ||
        (!changed && f->is_whole && f->format == JIT_PERF_MAP)) {
        f->is_whole = true;
        return 0;
    }
    r = check_last(f);
    _cleanup_free_ char *piece = malloc(PIECE_BYTES);
    if (!piece)
        return -ENOMEM;
    f->is_whole = false;
    while (r == 0 && more && *budget > 0) {
        r = read_piece(f, piece, until_ns, budget, &more);
        if (f->ranges.count > ranges_max)
            f->cut_at = ranges_max;
        code_ranges_keep(&f->ranges, ranges_max);
    }
    f->is_whole = r == 0 && !more;
    return r;
}

/* ---- names ---- */

static int reserve_buffer(struct jit_text *text, size_t bytes)
{
    if (text->buffer_bytes >= bytes)
        return 0;
    char *buffer = realloc(text->buffer, bytes);
    if (!buffer)
        return -ENOMEM;
    text->buffer = buffer;
    text->buffer_bytes = bytes;
    return 0;
}

/* Reads into the text's buffer; adds a NUL, and reserves space for jit_name_parse. */
static int64_t read_into_buffer(struct jit_file *f, uint64_t place, size_t bytes, struct jit_text *text)
{
    int r = reserve_buffer(text, bytes + 1 + JIT_NAME_ROOM);
    const int64_t n = r < 0 ? r : read_at(f, place, text->buffer, bytes);
    if (n >= 0)
        text->buffer[n] = '\0';
    return n;
}

static int describe_line(struct jit_file *f, const struct code_range *range, struct jit_text *text)
{
    struct perf_map_line line;
    const int64_t n = read_into_buffer(f, range->place, LINE_READ_BYTES, text);
    if (n < 0)
        return (int)n;
    const char *feed = memchr(text->buffer, '\n', (size_t)n); /* the name of a longer line is truncated */
    if (!perf_map_parse(text->buffer, feed ? (size_t)(feed - text->buffer) : (size_t)n, &line) ||
        line.start != range->start || line.size != range->size)
        return -ENOENT;
    const size_t at = (size_t)(line.name - text->buffer);
    text->buffer[at + line.name_bytes] = '\0';
    text->name = text->buffer + at;
    text->file = "";
    text->line = 0;
    return 0;
}

/* Copies file and name into a new buffer, name last: jit_name_parse writes after it. */
static int store_strings(struct jit_text *text, const struct jitdump_code *code)
{
    const size_t name_bytes = strlen(code->name) + 1, file_bytes = strlen(code->file) + 1;
    _cleanup_free_ char *copy = malloc(file_bytes + name_bytes + JIT_NAME_ROOM);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, code->file, file_bytes);
    memcpy(copy + file_bytes, code->name, name_bytes);
    free(text->buffer);
    text->buffer_bytes = file_bytes + name_bytes + JIT_NAME_ROOM;
    text->file = text->buffer = take_ptr(copy);
    text->name = text->buffer + file_bytes;
    text->line = code->line;
    return 0;
}

static int describe_record(struct jit_file *f, const struct code_range *range, uint64_t address, struct jit_text *text)
{
    struct jitdump_code code;
    int64_t n = read_into_buffer(f, range->place, CODE_READ_BYTES, text);
    const size_t wanted = n < 0 ? 0 : jitdump_described_bytes(text->buffer, (size_t)n);
    if (wanted > (size_t)(n < 0 ? 0 : n))
        n = read_into_buffer(f, range->place, wanted, text);
    if (n < 0)
        return (int)n;
    const uint64_t distance = address - range->start;
    if (!jitdump_describe(text->buffer, (size_t)n, distance, 0, &code) || code.size != range->size)
        return -ENOENT;
    if (code.line && jit_name_is_v8(code.name))
        jitdump_describe(text->buffer, (size_t)n, distance, V8_LINES_ADD, &code);
    return store_strings(text, &code);
}

int jit_file_describe(struct jit_file *f, const struct code_range *range, uint64_t address, struct jit_text *text)
{
    const int r = f->format == JIT_PERF_MAP ? describe_line(f, range, text) : describe_record(f, range, address, text);
    return r == -ETIMEDOUT || r == -ENOMEM ? r : r < 0 ? -ENOENT : 0;
}
