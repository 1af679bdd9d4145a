/* Buffered by stdio, because records are small and sequential. An invalid record is reported only after all valid
 * records before it have been returned, so a recording truncated by a full disk yields everything that is complete. */
#include "sources/events/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct record_file_head {
    char magic[8];
    uint32_t version;
    uint32_t reserved;
};
_Static_assert(sizeof(struct record_file_head) == 16, "file format");

static const char magic[8] = "SONDEWIR";

struct record_writer {
    FILE *file;
    int error;
};

struct record_reader {
    FILE *file;
    uint64_t position;
    int end; /* result of every later call; 0: the end is not reached */
    const char *error;
    union {
        struct record_header header;
        uint8_t bytes[RECORD_MAX_BYTES];
    } record;
};

int record_writer_open(const char *path, struct record_writer **ret)
{
    const struct record_file_head head = {.version = RECORD_FILE_VERSION};
    _cleanup_(record_writer_freep) struct record_writer *w = calloc(1, sizeof(*w));
    _cleanup_close_ int fd = -1;

    if (!w)
        return -ENOMEM;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    w->file = fdopen(fd, "w");
    if (!w->file)
        return -errno;
    (void)take_fd(&fd);
    if (fwrite(magic, sizeof(magic), 1, w->file) != 1 ||
        fwrite(&head.version, sizeof(head) - sizeof(magic), 1, w->file) != 1 || fflush(w->file) != 0)
        return errno ? -errno : -EIO;
    *ret = take_ptr(w);
    return 0;
}

void record_writer_free(struct record_writer *w)
{
    if (!w)
        return;
    if (w->file)
        fclose(w->file);
    free(w);
}

int record_writer_add(struct record_writer *w, const struct batch *batch)
{
    if (w->error)
        return w->error;
    for (size_t i = 0; i < batch_count(batch); i++) {
        const struct record_header *header = batch_get(batch, i);

        if (fwrite(header, header->size_bytes, 1, w->file) != 1) {
            w->error = errno ? -errno : -EIO;
            return w->error;
        }
    }
    if (fflush(w->file) != 0)
        w->error = errno ? -errno : -EIO;
    return w->error;
}

int record_reader_new(FILE *file, struct record_reader **ret)
{
    _cleanup_(record_reader_freep) struct record_reader *r = calloc(1, sizeof(*r));
    struct record_file_head head;

    if (!r)
        return -ENOMEM;
    if (fread(&head, sizeof(head), 1, file) != 1)
        return ferror(file) ? -EIO : -EPROTO;
    if (memcmp(head.magic, magic, sizeof(magic)) != 0 || head.version != RECORD_FILE_VERSION)
        return -EPROTO;
    r->position = sizeof(head);
    r->error = "";
    r->file = file;
    *ret = take_ptr(r);
    return 0;
}

int record_reader_open(const char *path, struct record_reader **ret)
{
    _cleanup_fclose_ FILE *file = fopen(path, "re");
    int r;

    if (!file)
        return -errno;
    r = record_reader_new(file, ret);
    if (r == 0)
        (void)take_ptr(file);
    return r;
}

void record_reader_free(struct record_reader *r)
{
    if (!r)
        return;
    if (r->file)
        fclose(r->file);
    free(r);
}

static int fail_reading(struct record_reader *r, const char *why)
{
    r->error = why;
    r->end = -EBADMSG;
    return r->end;
}

/* Reads the next record into r->record. Returns 0, or the error that every later call returns too. */
static int read_record(struct record_reader *r)
{
    struct record_header *header = &r->record.header;
    size_t got = fread(header, 1, sizeof(*header), r->file);

    if (got == 0 && !ferror(r->file)) {
        r->end = -ENODATA;
        return r->end;
    }
    if (got < sizeof(*header))
        return fail_reading(r, "a record's head is cut short");
    if (header->size_bytes < sizeof(*header) || header->size_bytes > RECORD_MAX_BYTES || header->size_bytes % 8 != 0)
        return fail_reading(r, "a record has an invalid size");
    if (fread(r->record.bytes + sizeof(*header), 1, header->size_bytes - sizeof(*header), r->file) !=
        header->size_bytes - sizeof(*header))
        return fail_reading(r, "a record is cut short");
    return 0;
}

int record_reader_next(struct record_reader *r, struct batch *batch)
{
    size_t before = batch_count(batch);

    while (r->end == 0 && batch_takes_samples(batch)) {
        int added;

        if (read_record(r) < 0)
            break;
        added = batch_add(batch, &r->record.header);
        if (added == -EBADMSG) {
            fail_reading(r, "a record is inconsistent or of an unknown kind");
            break;
        }
        if (added < 0)
            return added;
        r->position += r->record.header.size_bytes;
    }
    return batch_count(batch) > before ? 0 : r->end;
}

uint64_t record_reader_position(const struct record_reader *r)
{
    return r->position;
}

const char *record_reader_error(const struct record_reader *r)
{
    return r->error;
}
