/* tls_sites.c on files built here: the functions of OpenSSL as compilers emit them. With a file's path as argument it
 * prints the sites in that file. */
#include "resolve/elf/tls_sites.h"

#include "base/cleanup.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE     0x400000
#define CODE_AT  0x800
#define FUNCTION 0x40 /* bytes a function */
#define TEXTS                                                                                                          \
    "\0SSL_read\0SSL_read_ex\0SSL_write\0SSL_write_ex\0SSL_free\0BIO_write\0SSL_write_ex2\0crypto/tls.(*Conn).Read\0crypto/tls.(*Conn).Write\0runtime.memmove"
#define NAMES "\0.dynsym\0.strtab\0.plt\0.symtab\0.go.buildinfo"

enum {
    SSL_READ,
    SSL_READ_EX,
    SSL_WRITE,
    SSL_WRITE_EX,
    SSL_FREE,
    BIO_WRITE,
    SSL_WRITE_EX2,
    READ_INTERNAL,
    WRITE_INTERNAL,
    STUB,
    FUNCTIONS
};

#define EXPORTED 7

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr load;
    Elf64_Shdr sections[4];
    char names[64], texts[176];
    Elf64_Sym symbols[1 + EXPORTED];
    uint8_t padding[CODE_AT - 64 - 56 - 4 * 64 - 240 - 8 * 24];
    uint8_t code[FUNCTIONS][FUNCTION];
};
_Static_assert(offsetof(struct image, code) == CODE_AT, "where the code begins");

static uint64_t address_of(int function)
{
    return BASE + CODE_AT + (uint64_t)function * FUNCTION;
}

/* Appends a call of `callee` at offset `at` of `function`. */
static void put_call(struct image *i, int function, size_t at, int callee)
{
    const int32_t distance = (int32_t)(address_of(callee) - address_of(function) - at - 5);
    i->code[function][at] = 0xe8;
    memcpy(&i->code[function][at + 1], &distance, sizeof(distance));
    i->code[function][at + 5] = 0xc3;
}

static void put(struct image *i, int function, const char *code, size_t size)
{
    memcpy(i->code[function], code, size);
}

#define PUT(image, function, code) put(image, function, code, sizeof(code) - 1)

static void name_functions(struct image *i)
{
    static const uint32_t names[EXPORTED] = {1, 10, 22, 32, 45, 54, 64};
    memcpy(i->texts, TEXTS, sizeof(TEXTS));
    for (int n = 0; n < EXPORTED; n++)
        i->symbols[n + 1] = (Elf64_Sym){.st_name = names[n],
                                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                        .st_shndx = 3,
                                        .st_value = address_of(n),
                                        .st_size = FUNCTION};
}

static struct image *make_image(void)
{
    struct image *i = calloc(1, sizeof(*i));
    assert_non_null(i);
    i->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_phoff = offsetof(struct image, load),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 1,
                             .e_shoff = offsetof(struct image, sections),
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = 4,
                             .e_shstrndx = 2};
    i->load = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = BASE, .p_filesz = sizeof(*i), .p_memsz = sizeof(*i)};
    i->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                  .sh_type = SHT_DYNSYM,
                                  .sh_offset = offsetof(struct image, symbols),
                                  .sh_size = sizeof(i->symbols),
                                  .sh_link = 2,
                                  .sh_entsize = sizeof(Elf64_Sym)};
    i->sections[2] = (Elf64_Shdr){.sh_name = 9,
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = offsetof(struct image, names),
                                  .sh_size = sizeof(i->names) + sizeof(i->texts)};
    i->sections[3] = (Elf64_Shdr){.sh_name = 17,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_EXECINSTR,
                                  .sh_addr = address_of(STUB),
                                  .sh_size = FUNCTION};
    memcpy(i->names, NAMES, sizeof(NAMES));
    name_functions(i);
    for (int n = 1; n <= EXPORTED; n++)
        i->symbols[n].st_name += sizeof(i->names);
    i->symbols[1 + SSL_WRITE_EX2].st_shndx = SHN_UNDEF; /* only of later versions */
    return i;
}

/* As Debian's libssl: exported functions with `sub`, which call internal ones with `push`. */
static struct image *debian_image(void)
{
    struct image *i = make_image();
    for (int n = SSL_READ; n <= SSL_WRITE_EX; n++) {
        PUT(i, n, "\x48\x83\xec\x18\x48\x89\xe1");
        put_call(i, n, 7, n < SSL_WRITE ? READ_INTERNAL : WRITE_INTERNAL);
    }
    PUT(i, READ_INTERNAL, "\x55\x53\xc3");
    PUT(i, WRITE_INTERNAL, "\x41\x54\xc3");
    PUT(i, SSL_FREE, "\x48\x85\xff\x0f\x84\x10\x00\x00\x00\xc3");
    PUT(i, BIO_WRITE, "\x48\x83\xec\x18\x31\xc0\x85\xd2\x7e\x12\xc3");
    return i;
}

/* As Go's linker writes it: the first functions are (*Conn).Read, (*Conn).Write and memmove. */
static struct image *go_image(void)
{
    static const uint32_t names[] = {78, 102, 127};
    struct image *i = make_image();
    i->sections[1].sh_name = 22;
    i->sections[3].sh_name = 30;
    i->sections[3].sh_addr = 0;
    for (int n = 0; n < 3; n++)
        i->symbols[n + 1].st_name = (uint32_t)sizeof(i->names) + names[n];
    PUT(i, 0, "\x49\x3b\x66\x10\x0f\x86\x10\x00\x00\x00\x55\xf0\x0f\xb1\xbe\x70\x01\x00\x00");
    put_call(i, 0, 19, 2);
    PUT(i, 1, "\x4c\x8d\x64\x24\xb8\x4d\x3b\x66\x10\x0f\x86\x10\x00\x00\x00\x55\xc3");
    return i;
}

/* Consumes `i`. */
static struct tls_sites sites_of(struct image *i)
{
    struct elf_file *f;
    struct tls_sites sites;
    assert_int_equal(elf_open_memory(i, sizeof(*i), &f), 0);
    assert_int_equal(tls_sites_find(f, &sites), 0);
    elf_file_free(f);
    return sites;
}

static void assert_site(const struct tls_sites *s, size_t n, enum tls_site_kind kind, int function, size_t at)
{
    assert_true(n < s->count);
    assert_int_equal(s->all[n].kind, kind);
    assert_int_equal(s->all[n].file_offset, address_of(function) - BASE + at);
}

static void test_internal_functions_are_probed_where_exported_ones_are_single_stepped(void **state)
{
    const struct tls_sites s = sites_of(debian_image());
    (void)state;
    assert_int_equal(s.count, 4);
    assert_site(&s, 0, TLS_SITE_READ_EX, READ_INTERNAL, 0);
    assert_site(&s, 1, TLS_SITE_WRITE_EX, WRITE_INTERNAL, 0);
    assert_site(&s, 2, TLS_SITE_FREE, SSL_FREE, 3);
    assert_site(&s, 3, TLS_SITE_BIO_WRITE, BIO_WRITE, 8); /* its jump, the arguments still there */
    assert_true(s.has_functions);
    assert_null(s.declined);
}

static void test_exported_functions_are_probed_where_emulated(void **state)
{
    struct image *i = make_image();
    (void)state;
    for (int n = SSL_READ; n <= SSL_WRITE_EX; n++)
        PUT(i, n, "\x55\x48\x89\xe5\xc3");
    PUT(i, SSL_WRITE, "\xf3\x0f\x1e\xfa\x55\xc3"); /* behind endbr64 */
    PUT(i, SSL_FREE, "\x53\xc3");
    PUT(i, BIO_WRITE, "\x31\xd2\x85\xd2\x7e\x12\xc3"); /* the size is overwritten first */
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 5);
    assert_site(&s, 0, TLS_SITE_READ, SSL_READ, 0);
    assert_site(&s, 1, TLS_SITE_READ_EX, SSL_READ_EX, 0);
    assert_site(&s, 2, TLS_SITE_WRITE, SSL_WRITE, 4);
    assert_site(&s, 3, TLS_SITE_WRITE_EX, SSL_WRITE_EX, 0);
}

/* As the libssl of OpenSSL 3.5 in Python's wheels: SSL_write_ex jumps to SSL_write_ex2. */
static void test_internal_function_with_flags(void **state)
{
    struct image *i = debian_image();
    (void)state;
    i->symbols[1 + SSL_WRITE_EX2].st_shndx = 3;
    PUT(i, SSL_WRITE_EX, "\x49\x89\xc8\x31\xc9");
    put_call(i, SSL_WRITE_EX, 5, SSL_WRITE_EX2);
    i->code[SSL_WRITE_EX][5] = 0xe9;
    PUT(i, SSL_WRITE_EX2, "\x48\x83\xec\x08");
    put_call(i, SSL_WRITE_EX2, 4, WRITE_INTERNAL);
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 4);
    assert_site(&s, 0, TLS_SITE_READ_EX, READ_INTERNAL, 0);
    assert_site(&s, 1, TLS_SITE_WRITE_EX2, WRITE_INTERNAL, 0);
    assert_null(s.declined);
}

static void test_single_stepped_functions_are_declined(void **state)
{
    struct image *i = debian_image();
    (void)state;
    PUT(i, READ_INTERNAL, "\x48\x83\xec\x18\xc3");
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 1); /* BIO_write alone */
    assert_true(s.has_functions);
    assert_non_null(s.declined);
}

static void test_functions_that_call_different_ones_are_declined(void **state)
{
    struct image *i = debian_image();
    (void)state;
    put_call(i, SSL_READ_EX, 7, WRITE_INTERNAL);
    assert_non_null(sites_of(i).declined);
    i = debian_image(); /* reads and writes are not the same function */
    put_call(i, SSL_READ, 7, WRITE_INTERNAL);
    put_call(i, SSL_READ_EX, 7, WRITE_INTERNAL);
    assert_non_null(sites_of(i).declined);
}

static void test_calls_of_other_files_are_passed(void **state)
{
    struct image *i = debian_image();
    (void)state;
    put_call(i, SSL_READ, 7, STUB);
    put_call(i, SSL_READ, 12, READ_INTERNAL);
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 4);
    assert_site(&s, 0, TLS_SITE_READ_EX, READ_INTERNAL, 0);
}

static void test_functions_of_go(void **state)
{
    const struct tls_sites s = sites_of(go_image());
    (void)state;
    assert_int_equal(s.count, 3);
    assert_site(&s, 0, TLS_SITE_GO_READ, 0, 10); /* behind the check of the stack */
    assert_site(&s, 1, TLS_SITE_GO_TEXT, 0, 19);
    assert_site(&s, 2, TLS_SITE_GO_WRITE, 1, 15);
    struct image *i = go_image();
    put_call(i, 0, 19, 1); /* copies nothing */
    assert_non_null(sites_of(i).declined);
}

static void test_other_processors_are_declined(void **state)
{
    struct image *i = debian_image();
    (void)state;
    i->header.e_machine = EM_AARCH64;
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 0);
    assert_non_null(s.declined);
}

static void test_other_files_have_no_sites(void **state)
{
    struct image *i = debian_image();
    (void)state;
    memset(i->symbols, 0, sizeof(i->symbols));
    const struct tls_sites s = sites_of(i);
    assert_int_equal(s.count, 0);
    assert_false(s.has_functions);
    assert_null(s.declined);
}

static int print_sites(const char *path)
{
    static const char *const kinds[] = {"read",      "read_ex", "write",   "write_ex", "write_ex2", "free",
                                        "bio_write", "new",     "go_read", "go_text",  "go_write"};
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    struct tls_sites s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || elf_open(fd, &f) < 0 || tls_sites_find(f, &s) < 0)
        return 1;
    for (size_t i = 0; i < s.count; i++)
        printf("%s 0x%lx\n", kinds[s.all[i].kind], (unsigned long)s.all[i].file_offset);
    if (s.declined)
        printf("declined: %s\n", s.declined);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_internal_functions_are_probed_where_exported_ones_are_single_stepped),
        cmocka_unit_test(test_exported_functions_are_probed_where_emulated),
        cmocka_unit_test(test_internal_function_with_flags),
        cmocka_unit_test(test_single_stepped_functions_are_declined),
        cmocka_unit_test(test_functions_that_call_different_ones_are_declined),
        cmocka_unit_test(test_calls_of_other_files_are_passed),
        cmocka_unit_test(test_functions_of_go),
        cmocka_unit_test(test_other_processors_are_declined),
        cmocka_unit_test(test_other_files_have_no_sites),
    };
    return argc > 1 ? print_sites(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
