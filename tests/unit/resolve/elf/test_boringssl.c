/* boringssl.c on files built here: functions that report errors as BoringSSL's do, in code as compilers emit it. */
#include "resolve/elf/boringssl.h"

#include "base/cleanup.h"
#include "resolve/elf/tls_sites.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE     0x400000
#define FUNCTION 0x200 /* bytes a function */
#define WINDOW   65536 /* in which sections are read */
#define NAMES    "\0.rodata\0.text"

enum function {
    PUT_ERROR,
    MEMCPY,
    INNER_READ,
    PEEK,
    READ,
    FILLER, /* of most of the code's first window */
    WRITE,
    NEW,
    FLUSH,
    BIO_READ,
    BIO_WRITE,
    OTHER,
    LAST,
    FUNCTIONS
};
enum source { SSL_LIB, SSL_BUFFER, BIO, SOURCES };

static const char *const paths[SOURCES] = {"/src/ssl/ssl_lib.cc", "/src/ssl/ssl_buffer.cc", "/src/crypto/bio/bio.cc"};

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Shdr sections[4];
    char names[64];
    struct {
        uint8_t version, frame_encoding, count_encoding, table_encoding;
        uint32_t frame, count;
        struct {
            int32_t code, fde;
        } entries[FUNCTIONS];
    } frames;
    char constants[WINDOW + 512];
    uint8_t code[WINDOW + FUNCTIONS * FUNCTION];
    /* not of the file */
    size_t starts[FUNCTIONS], ends[FUNCTIONS], names_at[SOURCES];
};
#define FILE_BYTES offsetof(struct image, starts)

static uint64_t address_at(size_t offset)
{
    return BASE + offset;
}

static uint64_t address_of(const struct image *i, enum function f)
{
    return address_at(offsetof(struct image, code) + i->starts[f]);
}

/* ---- code ---- */

static void put(struct image *i, enum function f, const char *code, size_t size)
{
    memcpy(&i->code[i->ends[f]], code, size);
    i->ends[f] += size;
    assert_true(i->ends[f] - i->starts[f] <= FUNCTION);
}
#define PUT(image, function, code) put(image, function, code, sizeof(code) - 1)

static void put_distance(struct image *i, enum function f, uint64_t target)
{
    const int32_t distance =
        (int32_t)(target - address_at(offsetof(struct image, code) + i->ends[f] + sizeof(int32_t)));
    put(i, f, (const char *)&distance, sizeof(distance));
}

static void put_call(struct image *i, enum function f, enum function callee)
{
    PUT(i, f, "\xe8");
    put_distance(i, f, address_of(i, callee));
}

static void put_constant(struct image *i, enum function f, uint8_t opcode, uint32_t constant)
{
    put(i, f, (const char *)&opcode, 1);
    put(i, f, (const char *)&constant, sizeof(constant));
}

static void put_report_by(struct image *i, enum function f, enum source source, uint32_t reason, uint32_t library,
                          enum function callee)
{
    PUT(i, f, "\x41\xb8\x07\x00\x00\x00"); /* the line to r8d */
    PUT(i, f, "\x48\x8d\x0d");             /* the name to rcx */
    put_distance(i, f, address_at(offsetof(struct image, constants) + i->names_at[source]));
    put_constant(i, f, 0xba, reason);
    PUT(i, f, "\x31\xf6");
    put_constant(i, f, 0xbf, library);
    put_call(i, f, callee);
}

static void put_report(struct image *i, enum function f, enum source source, uint32_t reason)
{
    put_report_by(i, f, source, reason, source == BIO ? 17 : 16, PUT_ERROR);
}

static void begin(struct image *i, enum function f)
{
    i->ends[f] = i->starts[f];
    memset(&i->code[i->starts[f]], 0x90, FUNCTION);
    PUT(i, f, "\x41\x54\x55"); /* push */
}

#define STORE "\x48\x89\x90\x88\x00\x00\x00" /* mov %rdx,0x88(%rax) */
#define SPILL "\x48\x89\x44\x24\x08"         /* mov %rax,8(%rsp) */

static void put_bio(struct image *i, enum function f)
{
    begin(i, f);
    put_report(i, f, BIO, 115);
    put_report(i, f, BIO, 114);
}

static void put_peek(struct image *i, enum function f)
{
    begin(i, f);
    PUT(i, f, SPILL);
    put_call(i, f, INNER_READ);
    put_call(i, f, MEMCPY);
    put_report(i, f, SSL_LIB, 66);
}

static void put_write(struct image *i, enum function f)
{
    begin(i, f);
    for (const uint8_t *reason = (const uint8_t *)"\x6f\xd7\x42\xe2"; *reason; reason++)
        put_report(i, f, SSL_LIB, *reason);
}

static void put_functions(struct image *i)
{
    for (int f = 0; f < FUNCTIONS; f++)
        begin(i, f);
    put_report(i, INNER_READ, SSL_LIB, 226);
    put_report(i, INNER_READ, SSL_LIB, 215);
    PUT(i, INNER_READ, STORE);
    put_peek(i, PEEK);
    put_peek(i, READ);
    PUT(i, READ, STORE);
    put_write(i, WRITE);
    put_report(i, NEW, SSL_LIB, 185);
    put_report(i, FLUSH, SSL_BUFFER, 119);
    put_call(i, FLUSH, BIO_WRITE);
    put_call(i, FLUSH, OTHER);
    put_bio(i, BIO_READ);
    put_bio(i, BIO_WRITE);
}

/* ---- files ---- */

static void put_frames(struct image *i)
{
    const size_t at = offsetof(struct image, frames);
    i->frames.version = 1;
    i->frames.frame_encoding = 0x1b;
    i->frames.count_encoding = 3;
    i->frames.table_encoding = 0x3b;
    i->frames.count = FUNCTIONS;
    for (size_t f = 0; f < FUNCTIONS; f++)
        i->frames.entries[f].code = (int32_t)(offsetof(struct image, code) + i->starts[f] - at);
}

static void put_name(struct image *i, size_t at, const char *name)
{
    memcpy(&i->constants[at], name, strlen(name) + 1);
}

static void put_names(struct image *i)
{
    for (size_t source = 0; source < SOURCES; source++)
        put_name(i, i->names_at[source], paths[source]);
}

/* The last functions lie beyond the code's first window. */
static struct image *make_image(void)
{
    struct image *i = calloc(1, sizeof(*i));
    assert_non_null(i);
    for (size_t f = 0; f < FUNCTIONS; f++)
        i->starts[f] = f * FUNCTION + (f >= WRITE ? WINDOW - WRITE * FUNCTION - 0x10 : 0);
    for (size_t source = 0; source < SOURCES; source++)
        i->names_at[source] = 0x10 + source * 0x40;
    i->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_phoff = offsetof(struct image, segments),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 2,
                             .e_shoff = offsetof(struct image, sections),
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = 4,
                             .e_shstrndx = 3};
    i->segments[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = BASE, .p_filesz = FILE_BYTES, .p_memsz = FILE_BYTES};
    i->segments[1] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
                                  .p_offset = offsetof(struct image, frames),
                                  .p_vaddr = address_at(offsetof(struct image, frames)),
                                  .p_filesz = sizeof(i->frames),
                                  .p_memsz = sizeof(i->frames)};
    i->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_addr = address_at(offsetof(struct image, constants)),
                                  .sh_offset = offsetof(struct image, constants),
                                  .sh_size = sizeof(i->constants)};
    i->sections[2] = (Elf64_Shdr){.sh_name = 9,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_addr = address_at(offsetof(struct image, code)),
                                  .sh_offset = offsetof(struct image, code),
                                  .sh_size = sizeof(i->code)};
    i->sections[3] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, names), .sh_size = sizeof(i->names)};
    memcpy(i->names, NAMES, sizeof(NAMES));
    memset(i->code, 0x90, sizeof(i->code));
    put_frames(i);
    put_names(i);
    put_functions(i);
    return i;
}

/* Consumes `i`. */
static int find(struct image *i, size_t size, struct boringssl_functions *ret)
{
    struct elf_file *f;
    int r = elf_open_memory(i, size, &f);
    if (r < 0) {
        free(i);
        return r;
    }
    r = boringssl_find(f, ret);
    elf_file_free(f);
    return r;
}

static void assert_found(struct image *i)
{
    const uint64_t read = address_of(i, READ), write = address_of(i, WRITE), new_object = address_of(i, NEW),
                   bio_write = address_of(i, BIO_WRITE);
    struct boringssl_functions found;
    assert_int_equal(find(i, FILE_BYTES, &found), 0);
    assert_int_equal(found.read, read);
    assert_int_equal(found.write, write);
    assert_int_equal(found.new_object, new_object);
    assert_int_equal(found.bio_write, bio_write);
}

static void assert_refused(struct image *i, int error)
{
    struct boringssl_functions found;
    assert_int_equal(find(i, FILE_BYTES, &found), error);
}

static struct tls_sites sites_of(struct image *i)
{
    struct elf_file *f;
    struct tls_sites sites;
    assert_int_equal(elf_open_memory(i, FILE_BYTES, &f), 0);
    assert_int_equal(tls_sites_find(f, &sites), 0);
    elf_file_free(f);
    return sites;
}

/* ---- tests ---- */

static void test_functions_are_found_by_their_reports(void **state)
{
    struct image *i = make_image();
    (void)state;
    assert_found(i);
    i = make_image(); /* of 2023, where SSL_write reports no bad length, and in the other language */
    begin(i, WRITE);
    for (const uint8_t *reason = (const uint8_t *)"\xd7\x42\xe2"; *reason; reason++)
        put_report(i, WRITE, SSL_LIB, *reason);
    put_name(i, i->names_at[BIO], "/src/crypto/bio/bio.c");
    assert_found(i);
    i = make_image(); /* SSL_peek was not linked */
    begin(i, PEEK);
    assert_found(i);
}

/* Both sections are read in windows of 64 KiB. */
static void test_names_and_references_across_windows(void **state)
{
    (void)state;
    for (size_t at = WINDOW - sizeof("/src/ssl/ssl_lib.cc"); at <= WINDOW; at++) {
        struct image *i = make_image();
        memset(i->constants, 0, sizeof(i->constants));
        i->names_at[SSL_LIB] = at;
        put_names(i);
        put_functions(i);
        assert_found(i);
    }
    for (size_t back = 0; back < FUNCTION; back++) {
        struct image *i = make_image();
        memset(i->code, 0x90, sizeof(i->code));
        for (size_t f = WRITE; f < FUNCTIONS; f++)
            i->starts[f] = WINDOW + (f - WRITE) * FUNCTION - back;
        put_frames(i);
        put_functions(i);
        assert_found(i);
    }
}

static void test_sites(void **state)
{
    static const enum tls_site_kind kinds[] = {TLS_SITE_READ, TLS_SITE_WRITE, TLS_SITE_NEW, TLS_SITE_BIO_WRITE};
    static const enum function functions[] = {READ, WRITE, NEW, BIO_WRITE};
    struct image *i = make_image();
    uint64_t addresses[array_size(functions)];
    (void)state;
    for (size_t n = 0; n < array_size(functions); n++)
        addresses[n] = address_of(i, functions[n]);
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, array_size(kinds));
    for (size_t n = 0; n < s.count; n++) {
        assert_int_equal(s.all[n].kind, kinds[n]);
        assert_int_equal(s.all[n].file_offset, addresses[n] - BASE);
    }
    assert_true(s.has_functions);
    assert_null(s.declined);
}

static void test_single_stepped_functions_are_declined(void **state)
{
    static const enum function functions[] = {READ, WRITE, NEW, BIO_WRITE};
    (void)state;
    for (size_t n = 0; n < array_size(functions); n++) {
        struct image *i = make_image();
        memcpy(&i->code[i->starts[functions[n]]], "\x31\xd2\x90", 3); /* xor %edx,%edx */
        const struct tls_sites s = sites_of(i);
        assert_int_equal(s.count, 0);
        assert_true(s.has_functions);
        assert_string_equal(s.declined, "its functions begin with instructions that the kernel single-steps");
    }
}

static void test_unknown_code_is_declined(void **state)
{
    struct image *i = make_image();
    (void)state;
    begin(i, NEW);
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 0);
    assert_true(s.has_functions);
    assert_string_equal(s.declined, "the code of its BoringSSL is not known");
}

static void test_candidates_must_be_unique(void **state)
{
    struct image *i = make_image();
    (void)state;
    put_write(i, OTHER);
    assert_refused(i, -ENOTUNIQ);
    i = make_image(); /* both change something */
    PUT(i, PEEK, STORE);
    assert_refused(i, -ENOTUNIQ);
    i = make_image(); /* none does: SSL_read may call SSL_peek */
    put_peek(i, READ);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report(i, OTHER, SSL_LIB, 226);
    put_report(i, OTHER, SSL_LIB, 215);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report(i, OTHER, SSL_LIB, 185);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report(i, OTHER, SSL_BUFFER, 119);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_call(i, FLUSH, BIO_READ);
    assert_refused(i, -ENOTUNIQ);
}

static void test_functions_that_are_not_understood_are_no_candidates(void **state)
{
    struct image *i = make_image();
    (void)state;
    PUT(i, WRITE, "\xc5\xf8\x77"); /* an instruction that is not decoded */
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report_by(i, WRITE, SSL_LIB, 66, 16, OTHER); /* to another function than the other reports */
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report_by(i, WRITE, SSL_LIB, 66, 17, PUT_ERROR); /* of another library */
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report(i, WRITE, BIO, 115);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    put_report(i, NEW, SSL_LIB, 0); /* a reason that is not loaded, or 0 */
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    for (uint32_t reason = 1; reason <= 8; reason++) /* more than are kept */
        put_report(i, NEW, SSL_LIB, reason);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    i->ends[WRITE] -= 5; /* the last report's call follows elsewhere */
    PUT(i, WRITE, "\xe9\0\0\0\0");
    assert_refused(i, -ENOTUNIQ);
}

static void test_files_without_boringssl(void **state)
{
    struct image *i = make_image();
    (void)state;
    memset(i->constants, 0, sizeof(i->constants));
    assert_refused(i, -ENOENT);
    i = make_image(); /* OpenSSL's name is another one */
    put_name(i, i->names_at[SSL_LIB], "/src/ssl/ssl_lib.c");
    assert_refused(i, -ENOENT);
    i = make_image();
    i->constants[i->names_at[SSL_LIB] + strlen(paths[SSL_LIB])] = '?';
    assert_refused(i, -ENOENT);
    i = make_image(); /* without a directory, as in a program that searches for it */
    memset(&i->constants[i->names_at[SSL_LIB]], 0, strlen("/src/"));
    assert_refused(i, -ENOENT);
    i = make_image();
    i->header.e_machine = EM_AARCH64;
    assert_refused(i, -ENOENT);
    i = make_image();
    i->sections[1].sh_size = UINT64_MAX / 2;
    assert_refused(i, -ENOENT);
}

static void test_incomplete_files_are_refused(void **state)
{
    struct image *i = make_image(); /* two of BoringSSL */
    (void)state;
    put_name(i, 0x200, paths[SSL_LIB]);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    memset(&i->constants[i->names_at[BIO]], 0, 16);
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    i->sections[2].sh_size = UINT64_MAX / 2;
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    i->frames.count = 0;
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    i->frames.count = FILLER; /* where SSL_read ends is not known */
    assert_refused(i, -ENOTUNIQ);
    i = make_image();
    for (size_t at = 0; at + 7 <= FUNCTION * 14; at += 7) { /* more references than are kept */
        const size_t place = i->starts[WRITE] - 7 - at;
        const int32_t distance = (int32_t)(offsetof(struct image, constants) + i->names_at[SSL_LIB] -
                                           offsetof(struct image, code) - place - 7);
        memcpy(&i->code[place], "\x48\x8d\x0d", 3);
        memcpy(&i->code[place + 3], &distance, sizeof(distance));
    }
    assert_refused(i, -ENOTUNIQ);
}

static void test_truncated_files(void **state)
{
    (void)state;
    for (size_t size = 0; size < FILE_BYTES - FUNCTION; size += 1013) {
        struct boringssl_functions found;
        assert_true(find(make_image(), size, &found) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_are_found_by_their_reports),
        cmocka_unit_test(test_names_and_references_across_windows),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_single_stepped_functions_are_declined),
        cmocka_unit_test(test_unknown_code_is_declined),
        cmocka_unit_test(test_candidates_must_be_unique),
        cmocka_unit_test(test_functions_that_are_not_understood_are_no_candidates),
        cmocka_unit_test(test_files_without_boringssl),
        cmocka_unit_test(test_incomplete_files_are_refused),
        cmocka_unit_test(test_truncated_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
