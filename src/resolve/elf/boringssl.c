/* See boringssl.h. First the places of the names of source files among the constants, then the instructions in the code
 * that refer to them, then the functions with such instructions. A function that is not understood in full is no
 * candidate. */
#include "resolve/elf/boringssl.h"

#include "base/cleanup.h"
#include "resolve/elf/frame_table.h"
#include "resolve/elf/probe_site.h"
#include "resolve/elf/x86_code.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_MAX_BYTES (32u << 20)
#define WINDOW_BYTES      65536
#define PATH_BYTES        256 /* of a source file's name, with its directories */
#define REFERENCES_MAX    512
#define FUNCTION_BYTES    8192
#define REASONS_MAX       8
#define CALLEES_MAX       16

/* Sources of BoringSSL, and the library that their reports name. */
enum source { SSL_LIB, SSL_BUFFER, BIO, SOURCES, NO_SOURCE = SOURCES };

#define LIBRARY_SSL 16
#define LIBRARY_BIO 17

static const struct {
    const char *names[2];
    uint32_t library;
} sources[SOURCES] = {
    [SSL_LIB] = {{"ssl/ssl_lib.cc"}, LIBRARY_SSL},
    [SSL_BUFFER] = {{"ssl/ssl_buffer.cc"}, LIBRARY_SSL},
    [BIO] = {{"crypto/bio/bio.cc", "crypto/bio/bio.c"}, LIBRARY_BIO},
};

/* Reasons of reports (openssl/err.h, openssl/ssl.h). */
enum {
    SHOULD_NOT_HAVE_BEEN_CALLED = 66,
    BAD_LENGTH = 111,
    BIO_NOT_SET = 119,
    NULL_SSL_CTX = 185,
    SSL_HANDSHAKE_FAILURE = 215,
    UNINITIALIZED = 226,
};

/* An instruction that refers to the name of a source file. */
struct reference {
    uint64_t address;
    enum source source;
};

struct function {
    uint64_t address;
    enum source source;
    uint32_t reasons[REASONS_MAX];
    uint64_t callees[CALLEES_MAX]; /* without repetitions */
    size_t reason_count, callee_count;
    bool calls_more; /* than `callees` */
    bool is_known;   /* all its code was decoded, and all its reports are understood */
    bool stores;     /* something else than its own variables */
};

struct search {
    const struct elf_file *file;
    struct frame_table frames;
    uint64_t names[SOURCES]; /* addresses; 0: not found */
    bool is_repeated;        /* a name is there twice */
    struct reference references[REFERENCES_MAX];
    struct function functions[REFERENCES_MAX];
    size_t reference_count, function_count;
    uint64_t put_error; /* ERR_put_error, by the first report; 0: not known yet */
    uint8_t code[FUNCTION_BYTES];
    uint8_t window[PATH_BYTES + WINDOW_BYTES]; /* in front, the last bytes of the one before */
};

static int read_error(const struct search *s)
{
    return elf_error(s->file) < 0 ? elf_error(s->file) : -ENOENT;
}

/* ---- sections, window by window ---- */

/* `bytes`: the new ones, at `address`. PATH_BYTES in front of them can be read, too. */
typedef void (*take_window)(struct search *s, const uint8_t *bytes, size_t size, uint64_t address);

static int walk_section(struct search *s, const char *name, take_window take)
{
    const struct elf_section *section = elf_section(s->file, name);
    uint8_t *const begin = s->window + PATH_BYTES;
    if (!section || section->type != SHT_PROGBITS || section->flags & SHF_COMPRESSED ||
        section->size_bytes > SECTION_MAX_BYTES)
        return -ENOENT;
    memset(s->window, 0, PATH_BYTES);
    for (uint64_t done = 0; done < section->size_bytes; done += WINDOW_BYTES) {
        const uint64_t left = section->size_bytes - done;
        const size_t size = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        if (elf_read(s->file, section->offset + done, begin, size) < 0)
            return read_error(s);
        take(s, begin, size, section->vaddr + done);
        if (size == WINDOW_BYTES)
            memcpy(s->window, begin + size - PATH_BYTES, PATH_BYTES);
    }
    return 0;
}

/* A path ends with the file's name, behind a directory, and a NUL: where it begins in memory. */
static void find_name(struct search *s, enum source source, const char *name, const uint8_t *bytes, size_t size,
                      uint64_t address)
{
    const size_t length = strlen(name) + 1;
    const uint8_t *const end = bytes + size, *at = bytes - (length - 1);
    for (; (at = memmem(at, (size_t)(end - at), name, length)); at += length) {
        const uint8_t *begin = at;
        while (begin > s->window && begin[-1])
            begin--;
        if (begin == at) /* as in our own program */
            continue;
        s->is_repeated |= s->names[source] != 0;
        s->names[source] = address - (uint64_t)(bytes - begin);
    }
}

static void find_first_name(struct search *s, const uint8_t *bytes, size_t size, uint64_t address)
{
    find_name(s, SSL_LIB, sources[SSL_LIB].names[0], bytes, size, address);
}

static void find_other_names(struct search *s, const uint8_t *bytes, size_t size, uint64_t address)
{
    for (enum source source = SSL_LIB + 1; source < SOURCES; source++)
        for (size_t n = 0; n < array_size(sources[source].names) && sources[source].names[n]; n++)
            find_name(s, source, sources[source].names[n], bytes, size, address);
}

/* ---- references: lea of the name into rcx, where ERR_put_error takes it ---- */

#define LEA_BYTES 7

static const uint8_t lea[] = {0x48, 0x8d, 0x0d}; /* and the distance */

/* The name that the instruction at `code` loads. */
static enum source name_loaded(const struct search *s, const uint8_t *code, uint64_t address)
{
    int32_t distance;
    if (memcmp(code, lea, sizeof(lea)) != 0)
        return NO_SOURCE;
    memcpy(&distance, code + sizeof(lea), sizeof(distance));
    for (enum source source = 0; source < SOURCES; source++)
        if (s->names[source] == address + LEA_BYTES + (uint64_t)(int64_t)distance)
            return source;
    return NO_SOURCE;
}

static void find_references(struct search *s, const uint8_t *bytes, size_t size, uint64_t address)
{
    for (const uint8_t *at = bytes - (LEA_BYTES - 1), *const end = at + size; at < end; at++) {
        if (at[1] != lea[1] || at[2] != lea[2]) /* most code */
            continue;
        const uint64_t place = address - (uint64_t)(bytes - at);
        const enum source source = name_loaded(s, at, place);
        if (source != NO_SOURCE && s->reference_count < REFERENCES_MAX)
            s->references[s->reference_count++] = (struct reference){place, source};
    }
}

/* ---- functions ---- */

static bool has_reason(const struct function *f, uint32_t reason)
{
    for (size_t i = 0; i < f->reason_count; i++)
        if (f->reasons[i] == reason)
            return true;
    return false;
}

static bool calls(const struct function *f, uint64_t callee)
{
    for (size_t i = 0; i < f->callee_count; i++)
        if (f->callees[i] == callee)
            return true;
    return false;
}

static void add_callee(struct function *f, uint64_t callee)
{
    if (calls(f, callee))
        return;
    f->calls_more |= f->callee_count == CALLEES_MAX;
    if (f->callee_count < CALLEES_MAX)
        f->callees[f->callee_count++] = callee;
}

/* What the instructions since the last call have loaded as arguments. */
struct report {
    enum source source;
    uint32_t reason, library; /* 0: none */
};

static void add_report(struct search *s, struct function *f, const struct report *r, uint64_t callee)
{
    s->put_error = s->put_error ?: callee;
    f->is_known &= r->source == f->source && r->library == sources[f->source].library && callee == s->put_error;
    if (has_reason(f, r->reason))
        return;
    f->is_known &= r->reason && f->reason_count < REASONS_MAX;
    if (f->is_known)
        f->reasons[f->reason_count++] = r->reason;
}

static void note_argument(const struct search *s, const uint8_t *code, size_t bytes, uint64_t address, struct report *r)
{
    uint32_t constant = 0;
    if (bytes == 5 && (code[0] == 0xba || code[0] == 0xbf)) { /* mov to edx, edi */
        memcpy(&constant, code + 1, sizeof(constant));
        *(code[0] == 0xba ? &r->reason : &r->library) = constant;
    } else if (bytes == LEA_BYTES && name_loaded(s, code, address) != NO_SOURCE) {
        r->source = name_loaded(s, code, address);
    }
}

/* Reads the code of `f`, which ends before `end`. */
static void read_function(struct search *s, struct function *f, uint64_t end)
{
    static const struct report nothing = {.source = NO_SOURCE};
    struct report report = nothing;
    struct x86_instruction i;
    const uint64_t bytes = end - f->address;
    if (bytes > sizeof(s->code) || probe_code_read(s->file, f->address, s->code, (size_t)bytes) != bytes)
        return;
    f->is_known = true;
    for (size_t at = 0; at < bytes && f->is_known; at += i.bytes) {
        const uint64_t address = f->address + at;
        if (!x86_decode(s->code + at, bytes - at, address, &i)) {
            f->is_known = false;
            return;
        }
        f->stores |= i.is_store;
        note_argument(s, s->code + at, i.bytes, address, &report);
        if (i.kind == X86_CALL)
            add_callee(f, i.target);
        if (i.kind == X86_CALL && report.source != NO_SOURCE)
            add_report(s, f, &report, i.target);
        else if ((i.kind == X86_JUMP || i.kind == X86_END) && report.source != NO_SOURCE)
            f->is_known = false; /* the report follows elsewhere */
        if (i.kind == X86_CALL || i.kind == X86_JUMP || i.kind == X86_END)
            report = nothing;
    }
}

static int find_functions(struct search *s)
{
    uint64_t end = 0;
    for (size_t i = 0; i < s->reference_count; i++) {
        struct frame_table_entry frame;
        if (s->references[i].address < end) /* another one in the same function */
            continue;
        if (frame_table_search(&s->frames, s->references[i].address, &frame) < 0)
            return read_error(s);
        struct function *f = &s->functions[s->function_count++];
        *f = (struct function){.address = frame.code, .source = s->references[i].source};
        end = frame.next;
        read_function(s, f, end);
    }
    return 0;
}

/* ---- the wanted ones ---- */

static bool is_write(const struct search *s, const struct function *f)
{
    (void)s;
    return f->source == SSL_LIB && has_reason(f, SHOULD_NOT_HAVE_BEEN_CALLED) && has_reason(f, UNINITIALIZED) &&
           has_reason(f, SSL_HANDSHAKE_FAILURE) && f->reason_count == 3 + (size_t)has_reason(f, BAD_LENGTH);
}

/* The internal function that SSL_read and SSL_peek call. */
static bool is_inner_read(const struct search *s, const struct function *f)
{
    (void)s;
    return f->source == SSL_LIB && has_reason(f, UNINITIALIZED) && has_reason(f, SSL_HANDSHAKE_FAILURE) &&
           !has_reason(f, SHOULD_NOT_HAVE_BEEN_CALLED);
}

static bool is_new(const struct search *s, const struct function *f)
{
    (void)s;
    return f->source == SSL_LIB && has_reason(f, NULL_SSL_CTX);
}

/* ssl_write_buffer_flush, which calls BIO_write. */
static bool is_flush(const struct search *s, const struct function *f)
{
    (void)s;
    return f->source == SSL_BUFFER && has_reason(f, BIO_NOT_SET) && f->reason_count == 1 && !f->calls_more;
}

/* The only function of this kind; NULL: there is none, or another one. */
static const struct function *only(const struct search *s, bool (*is)(const struct search *, const struct function *))
{
    const struct function *found = NULL;
    for (size_t i = 0; i < s->function_count; i++) {
        const struct function *f = &s->functions[i];
        if (!f->is_known || !is(s, f))
            continue;
        if (found)
            return NULL;
        found = f;
    }
    return found;
}

/* SSL_read and SSL_peek have the same reports. Only the former changes the object: it discards what it has read. */
static bool is_read(const struct search *s, const struct function *f)
{
    const struct function *inner = only(s, is_inner_read);
    return f->source == SSL_LIB && has_reason(f, SHOULD_NOT_HAVE_BEEN_CALLED) && f->reason_count == 1 && inner &&
           calls(f, inner->address) && f->stores;
}

static bool is_bio_write(const struct search *s, const struct function *f)
{
    const struct function *flush = only(s, is_flush);
    return f->source == BIO && flush && calls(flush, f->address);
}

static int choose_functions(const struct search *s, struct boringssl_functions *ret)
{
    const struct function *read = only(s, is_read), *write = only(s, is_write), *new_object = only(s, is_new),
                          *bio_write = only(s, is_bio_write);
    if (!read || !write || !new_object || !bio_write)
        return -ENOTUNIQ;
    *ret = (struct boringssl_functions){.read = read->address,
                                        .write = write->address,
                                        .new_object = new_object->address,
                                        .bio_write = bio_write->address};
    return 0;
}

int boringssl_find(const struct elf_file *f, struct boringssl_functions *ret)
{
    _cleanup_free_ struct search *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->file = f;
    int r = elf_machine(f) == EM_X86_64 ? walk_section(s, ".rodata", find_first_name) : -ENOENT;
    if (r < 0 || !s->names[SSL_LIB])
        return r < 0 ? r : -ENOENT;
    r = walk_section(s, ".rodata", find_other_names);
    if (r == 0 && s->is_repeated)
        r = -ENOTUNIQ;
    if (r == 0)
        r = walk_section(s, ".text", find_references);
    if (r == 0 && s->reference_count == REFERENCES_MAX)
        r = -ENOTUNIQ;
    if (r == 0)
        r = frame_table_open(f, &s->frames);
    if (r == 0)
        r = find_functions(s);
    if (r == 0)
        r = choose_functions(s, ret);
    return r == -ENOENT || r == -EIO ? -ENOTUNIQ : r;
}
