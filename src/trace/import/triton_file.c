/* Reads a file of Triton trace JSON as a sequence of records; see triton_file.h. */
#include "trace/import/triton_file.h"

#include "base/utf8.h"
#include "import/packed_file.h"
#include "trace/import/triton_json.h"

#include <errno.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)512 << 10) /* fits into the L2 cache */

enum place {
    AT_START,  /* only white space so far */
    AT_OBJECT, /* after '[' or a comma */
    AT_COMMA,  /* after an object */
    AT_END,    /* after ']' */
    AT_BROKEN, /* searching for the next object after an error */
};

struct triton_file {
    struct packed_file *packed;
    struct triton_json json; /* `at` and `end` point into `buffer` */
    char *buffer;
    size_t capacity;
    uint64_t base; /* file offset of the buffer's first byte */
    bool ended;    /* end of file or read error */
    enum place place;
    struct triton_report report;
};

int triton_file_open(const char *path, struct triton_file **ret)
{
    _cleanup_(triton_file_freep) struct triton_file *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->capacity = BUFFER_BYTES;
    f->buffer = malloc(f->capacity + TRITON_JSON_PADDING);
    if (!f->buffer)
        return -ENOMEM;
    memset(f->buffer, 0, TRITON_JSON_PADDING);
    f->json.at = f->json.end = f->buffer;
    int r = packed_file_open(path, &f->packed);
    if (r < 0)
        return r;
    *ret = take_ptr(f);
    return 0;
}

void triton_file_free(struct triton_file *f)
{
    if (!f)
        return;
    packed_file_free(f->packed);
    free(f->json.stamps);
    free(f->buffer);
    free(f);
}

const struct triton_report *triton_file_report(const struct triton_file *f)
{
    return &f->report;
}

uint64_t triton_file_position(const struct triton_file *f)
{
    return packed_file_position(f->packed);
}

uint64_t triton_file_size(const struct triton_file *f)
{
    return packed_file_size(f->packed);
}

static uint64_t offset_of(const struct triton_file *f, const char *at)
{
    return f->base + (uint64_t)(at - f->buffer);
}

/* ---- the buffer ---- */

static int grow(struct triton_file *f)
{
    size_t capacity = f->capacity * 2;
    if (capacity > TRITON_RECORD_MAX_BYTES)
        return -EFBIG;
    char *buffer = realloc(f->buffer, capacity + TRITON_JSON_PADDING);
    if (!buffer)
        return -ENOMEM;
    f->json.at = buffer + (f->json.at - f->buffer);
    f->json.end = buffer + (f->json.end - f->buffer);
    f->buffer = buffer;
    f->capacity = capacity;
    return 0;
}

/* Discards the bytes before `keep` and reads more. 1; 0 at the end; -EFBIG; -ENOMEM. */
static int fill(struct triton_file *f, const char *keep)
{
    size_t kept = (size_t)(f->json.end - keep);
    if (f->ended)
        return 0;
    f->base += (uint64_t)(keep - f->buffer);
    memmove(f->buffer, keep, kept);
    f->json.at = f->buffer;
    f->json.end = f->buffer + kept;
    int r = kept > f->capacity / 2 ? grow(f) : 0;
    if (r < 0 && kept == f->capacity)
        return r;
    size_t filled = kept;
    while (filled < f->capacity && !f->ended) {
        ssize_t n = packed_file_read(f->packed, f->buffer + filled, f->capacity - filled);
        f->ended = n <= 0;
        if (n < 0)
            f->report.error = (int)n;
        else
            filled += (size_t)n;
    }
    f->report.bytes += filled - kept;
    f->json.end = f->buffer + filled;
    memset(f->buffer + filled, 0, TRITON_JSON_PADDING);
    return filled > kept;
}

/* Advances to the first byte that is not white space, or to the end of the file. */
static int skip_space(struct triton_file *f)
{
    for (;;) {
        f->json.at = triton_json_space(f->json.at);
        if (f->json.at < f->json.end)
            return 0;
        int r = fill(f, f->json.end);
        if (r <= 0)
            return r;
    }
}

/* ---- errors ---- */

/* Reports an error at `broke`, and searches for the next object from `next` on. */
static void report_bad_object(struct triton_file *f, const char *broke, const char *next, const char *why)
{
    struct triton_report *report = &f->report;
    if (report->bad++ == 0) {
        report->first_bad = offset_of(f, broke);
        report->first_reason = why;
    }
    f->json.at = next;
    f->place = AT_BROKEN;
}

/* The brace before `"id"`, or NULL: all records of Triton and libsonde begin like this. */
static const char *brace_before(const char *from, const char *id)
{
    while (id > from && (id[-1] == ' ' || id[-1] == '\n' || id[-1] == '\t' || id[-1] == '\r'))
        id--;
    return id > from && id[-1] == '{' ? id - 1 : NULL;
}

static int find_next(struct triton_file *f)
{
    const size_t overlap = 32; /* the brace and white space before a key may be in the previous buffer */
    for (;;) {
        const char *from = f->json.at, *id = from;
        while (id < f->json.end && (id = memmem(id, (size_t)(f->json.end - id), "\"id\"", 4))) {
            const char *brace = brace_before(from, id);
            if (brace) {
                f->report.bad_bytes += (uint64_t)(brace - from);
                f->json.at = brace;
                f->place = AT_OBJECT;
                return 0;
            }
            id += 4;
        }
        size_t left = (size_t)(f->json.end - from), keep = left < overlap ? left : overlap;
        f->report.bad_bytes += left - keep;
        f->json.at = f->json.end - keep;
        int r = fill(f, f->json.at);
        if (r < 0)
            return r;
        if (r == 0) {
            f->report.bad_bytes += keep;
            f->json.at = f->json.end;
            f->place = AT_COMMA; /* the file is truncated */
            return 0;
        }
    }
}

static bool is_utf8(struct triton_text text)
{
    char last[8]; /* utf8_length needs a NUL, which the slice lacks */
    for (size_t i = 0; i < text.size;) {
        size_t left = text.size - i, n = left < 4 ? left : 4;
        memcpy(last, text.at + i, n);
        last[n] = '\0';
        size_t length = (unsigned char)*last < 0x20 ? 0 : utf8_length(last);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

/* Counts objects with bytes that JSON does not allow, a sign that the tensor was not written correctly. */
static void count_odd(struct triton_file *f, const struct triton_record *r)
{
    const struct triton_text *const texts[] = {&r->model_name,  &r->request_id,   &r->activity,    &r->tensor.name,
                                               &r->tensor.data, &r->tensor.shape, &r->tensor.dtype};
    bool good = true;
    for (size_t i = 0; i < array_size(texts) && good; i++)
        good = is_utf8(*texts[i]);
    for (size_t i = 0; r->facts && i < TRITON_FACT_COUNT && good; i++)
        good = is_utf8(r->facts->texts[i]);
    for (size_t i = 0; i < r->stamp_count && good; i++)
        good = is_utf8(r->stamps[i].name);
    if (!good && f->report.odd++ == 0)
        f->report.first_odd = r->offset;
}

/* ---- objects ---- */

/* Returns 1 with a record, 0 if no record begins here. */
static int read_object(struct triton_file *f, struct triton_record *ret)
{
    struct triton_json *json = &f->json;
    struct triton_record record;
    for (;;) {
        const char *start = json->at;
        int r = *start == '{' ? triton_json_object(json, &record) : -EBADMSG;
        if (r == 0) {
            record.offset = offset_of(f, start);
            if (json->odd)
                count_odd(f, &record);
            if (json->escaped)
                triton_json_unescape(json, &record);
            f->report.records++;
            f->report.cut = offset_of(f, json->at);
            f->place = AT_COMMA;
            *ret = record;
            return 1;
        }
        if (r == -EBADMSG) {
            const char *broke = *start == '{' ? json->at : start, *next = broke > start ? broke : start + 1;
            f->report.bad_bytes += (uint64_t)(next - start);
            report_bad_object(f, broke, next, *start == '{' ? json->why : "an object is expected here");
            return 0;
        }
        r = fill(f, start);
        if (r == 0) { /* truncated within an object */
            json->at = json->end;
            f->place = AT_COMMA;
            return 0;
        }
        if (r == -EFBIG) {
            f->report.bad_bytes += (uint64_t)(json->end - json->at);
            report_bad_object(f, json->at, json->end, "an object of more than 64 MiB");
        }
        if (r < 0)
            return r == -EFBIG ? 0 : r;
    }
}

/* One step between objects: 1 if an object may begin here, 0 to continue, -ENODATA at the end. */
static int step(struct triton_file *f)
{
    int r = skip_space(f);
    if (r < 0)
        return r;
    if (f->json.at == f->json.end) {
        f->report.is_cut = f->place != AT_END;
        return -ENODATA;
    }
    char c = *f->json.at;
    switch (f->place) {
    case AT_START:
        if (c != '[')
            return -EILSEQ;
        f->json.at++;
        f->place = AT_OBJECT;
        return 0;
    case AT_OBJECT:
        if (c != ']')
            return 1;
        f->json.at++;
        f->place = AT_END;
        return 0;
    case AT_COMMA:
        if (c == ',' || c == ']') {
            f->json.at++;
            f->place = c == ',' ? AT_OBJECT : AT_END;
        } else {
            report_bad_object(f, f->json.at, f->json.at, "a comma or the end of the array is expected here");
        }
        return 0;
    case AT_END:
        if (c == '[') { /* concatenated arrays, as of `cat trace.0 trace.1` */
            f->json.at++;
            f->place = AT_OBJECT;
        } else {
            report_bad_object(f, f->json.at, f->json.at, "unexpected text after the end of the array");
        }
        return 0;
    case AT_BROKEN:
        return find_next(f);
    }
    return 0;
}

int triton_file_next(struct triton_file *f, struct triton_record *ret)
{
    for (;;) {
        int r;
        if (f->place == AT_COMMA && *f->json.at == ',' && f->json.at[1] == '{') { /* the common case */
            f->json.at++;
            r = 1;
        } else {
            r = step(f);
        }
        if (r == -ENODATA)
            return 0;
        if (r == 1)
            r = read_object(f, ret);
        if (r != 0)
            return r;
    }
}
