/* See tls_sites.h. */
#include "resolve/elf/tls_sites.h"

#include "resolve/elf/boringssl.h"
#include "resolve/elf/elf_addresses.h"
#include "resolve/elf/probe_site.h"
#include "resolve/elf/x86_code.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (64u << 20) /* of symbols, and of their names */
#define GO_CODE_BYTES     4096        /* of a function of Go that are decoded */
#define PLT               ".plt"
#define SINGLE_STEPPED    "its functions begin with instructions that the kernel single-steps"

enum function { READ, READ_EX, WRITE, WRITE_EX, WRITE_EX2, FREE, BIO_WRITE, GO_READ, GO_WRITE, GO_MEMMOVE, FUNCTIONS };

static const char *const names[FUNCTIONS] = {"SSL_read",
                                             "SSL_read_ex",
                                             "SSL_write",
                                             "SSL_write_ex",
                                             "SSL_write_ex2",
                                             "SSL_free",
                                             "BIO_write",
                                             "crypto/tls.(*Conn).Read",
                                             "crypto/tls.(*Conn).Write",
                                             "runtime.memmove"};

/* An exported function; address 0: the file does not define it. */
struct function_code {
    uint64_t address;
    uint64_t emulated; /* where its entry can be probed, for its return as well; 0: nowhere */
    uint64_t callee;   /* the first function of this file that it calls; 0: none */
};

static bool is_in_plt(const struct elf_file *f, uint64_t address)
{
    const struct elf_section *sections;
    const size_t count = elf_sections(f, &sections);
    for (size_t i = 0; i < count; i++)
        if (strncmp(sections[i].name, PLT, strlen(PLT)) == 0 && address >= sections[i].vaddr &&
            address - sections[i].vaddr < sections[i].size_bytes)
            return true;
    return false;
}

static uint64_t first_callee(const struct elf_file *f, uint64_t address)
{
    uint8_t code[PROBE_CODE_BYTES];
    const size_t size = probe_code_read(f, address, code, sizeof(code));
    struct x86_instruction i;
    for (size_t at = 0; at < size; at += i.bytes) {
        if (!x86_decode(code + at, size - at, address + at, &i) || i.kind == X86_END)
            return 0;
        const bool leaves = i.kind == X86_JUMP && (i.target < address || i.target >= address + PROBE_CODE_BYTES);
        if ((i.kind == X86_CALL || leaves) && !is_in_plt(f, i.target))
            return i.target;
        if (i.kind == X86_JUMP)
            return 0;
    }
    return 0;
}

static struct function_code function_at(const struct elf_file *f, uint64_t address)
{
    struct function_code code = {.address = address};
    if (!address)
        return code;
    code.emulated = probe_site_at_entry(f, address);
    code.callee = first_callee(f, address);
    return code;
}

static void add_site(const struct elf_file *f, struct tls_sites *s, enum tls_site_kind kind, uint64_t address)
{
    uint64_t offset;
    if (s->count < TLS_SITES_MAX && elf_offset_from_vaddr(f, address, &offset) == 0 && offset < elf_size(f))
        s->all[s->count++] = (struct tls_site){kind, offset};
}

/* One direction: the exported functions. Returns where the first one is probed; 0: not all of them can be. */
static uint64_t add_exported(const struct elf_file *f, struct tls_sites *s, const struct function_code *plain,
                             const struct function_code *ex, enum tls_site_kind kind)
{
    if (!plain->emulated || (!ex->emulated && ex->address))
        return 0;
    add_site(f, s, kind, plain->emulated);
    if (ex->emulated)
        add_site(f, s, kind + 1, ex->emulated);
    return plain->emulated;
}

/* One direction: the internal function that both exported ones call, which has the arguments of `ex`, of this kind.
 * Returns where it is probed; 0: there is none, or it cannot be. */
static uint64_t add_internal(const struct elf_file *f, struct tls_sites *s, const struct function_code *plain,
                             const struct function_code *ex, enum tls_site_kind kind)
{
    const uint64_t callee =
        plain->callee && (plain->callee == ex->callee || !ex->address) ? probe_site_at_entry(f, plain->callee) : 0;
    if (callee)
        add_site(f, s, kind, callee);
    return callee;
}

static uint64_t add_reads(const struct elf_file *f, struct tls_sites *s, const struct function_code code[FUNCTIONS])
{
    return add_exported(f, s, &code[READ], &code[READ_EX], TLS_SITE_READ)
               ?: add_internal(f, s, &code[READ], &code[READ_EX], TLS_SITE_READ_EX);
}

/* Since OpenSSL 3.3 SSL_write_ex calls SSL_write_ex2, and the internal function has its arguments. */
static uint64_t add_writes(const struct elf_file *f, struct tls_sites *s, const struct function_code code[FUNCTIONS])
{
    const uint64_t exported = add_exported(f, s, &code[WRITE], &code[WRITE_EX], TLS_SITE_WRITE);
    if (exported)
        return exported;
    return code[WRITE_EX2].address ? add_internal(f, s, &code[WRITE], &code[WRITE_EX2], TLS_SITE_WRITE_EX2)
                                   : add_internal(f, s, &code[WRITE], &code[WRITE_EX], TLS_SITE_WRITE_EX);
}

/* ---- Go ---- */

/* Go's functions first check whether the stack has room; where it has not, they begin again. Returns the address of the
 * push behind that, with the arguments still in their registers; 0: not found. */
static uint64_t behind_stack_check(const struct elf_file *f, uint64_t address)
{
    uint8_t code[PROBE_CODE_BYTES];
    const size_t size = probe_code_read(f, address, code, sizeof(code));
    struct x86_instruction i;
    bool is_checked = false;
    for (size_t at = 0; at < size; at += i.bytes) {
        if (!x86_decode(code + at, size - at, address + at, &i))
            return 0;
        if (is_checked)
            return i.kind == X86_PUSH && i.is_emulated ? address + at : 0;
        is_checked = i.kind == X86_BRANCH;
        if (i.kind != X86_OTHER && !is_checked)
            return 0;
    }
    return 0;
}

/* The first call of `callee`; 0: none. */
static uint64_t call_of(const struct elf_file *f, uint64_t address, uint64_t callee)
{
    uint8_t code[GO_CODE_BYTES];
    const size_t size = probe_code_read(f, address, code, sizeof(code));
    struct x86_instruction i;
    for (size_t at = 0; at < size; at += i.bytes) {
        if (!x86_decode(code + at, size - at, address + at, &i))
            return 0;
        if (i.kind == X86_CALL && i.target == callee)
            return i.is_emulated ? address + at : 0;
    }
    return 0;
}

static void find_go_sites(const struct elf_file *f, const uint64_t addresses[FUNCTIONS], struct tls_sites *s)
{
    const uint64_t reads = behind_stack_check(f, addresses[GO_READ]),
                   writes = behind_stack_check(f, addresses[GO_WRITE]),
                   text = call_of(f, addresses[GO_READ], addresses[GO_MEMMOVE]);
    s->has_functions = true;
    if (!reads || !writes || !text) {
        s->declined = "the code of Go's crypto/tls is not known";
        return;
    }
    add_site(f, s, TLS_SITE_GO_READ, reads);
    add_site(f, s, TLS_SITE_GO_TEXT, text);
    add_site(f, s, TLS_SITE_GO_WRITE, writes);
}

/* ---- BoringSSL without symbols ---- */

static int find_boringssl_sites(const struct elf_file *f, struct tls_sites *s)
{
    struct boringssl_functions functions;
    int r = boringssl_find(f, &functions);
    if (r == -ENOENT)
        return 0;
    s->has_functions = true;
    if (r == -ENOTUNIQ) {
        s->declined = "the code of its BoringSSL is not known";
        return 0;
    }
    if (r < 0)
        return r;
    const uint64_t reads = probe_site_at_entry(f, functions.read), writes = probe_site_at_entry(f, functions.write),
                   begin = probe_site_at_entry(f, functions.new_object),
                   bio = probe_site_with_arguments(f, functions.bio_write);
    if (!reads || !writes || !begin || !bio) {
        s->declined = SINGLE_STEPPED;
        return 0;
    }
    add_site(f, s, TLS_SITE_READ, reads);
    add_site(f, s, TLS_SITE_WRITE, writes);
    add_site(f, s, TLS_SITE_NEW, begin);
    add_site(f, s, TLS_SITE_BIO_WRITE, bio);
    return 0;
}

/* ---- files ---- */

static void find_sites(const struct elf_file *f, const uint64_t addresses[FUNCTIONS], struct tls_sites *s)
{
    struct function_code code[FUNCTIONS];
    for (size_t i = 0; i < FUNCTIONS; i++)
        code[i] = function_at(f, addresses[i]);
    s->has_functions = addresses[READ] && addresses[WRITE];
    if (s->has_functions) {
        const uint64_t reads = add_reads(f, s, code), writes = add_writes(f, s, code);
        const uint64_t end = addresses[FREE] ? probe_site_with_arguments(f, addresses[FREE]) : 0;
        if (end)
            add_site(f, s, TLS_SITE_FREE, end);
        if (!reads || !writes || reads == writes || !end) {
            s->count = 0;
            s->declined = SINGLE_STEPPED;
        }
    }
    const uint64_t bio = addresses[BIO_WRITE] ? probe_site_with_arguments(f, addresses[BIO_WRITE]) : 0;
    if (bio)
        add_site(f, s, TLS_SITE_BIO_WRITE, bio);
}

int tls_sites_find(const struct elf_file *f, struct tls_sites *ret)
{
    uint64_t addresses[FUNCTIONS] = {0};
    struct tls_sites found = {0};
    int r = elf_addresses_find(f, ".dynsym", SYMBOLS_MAX_BYTES, STT_FUNC, names, FUNCTIONS, addresses);
    if ((r == 0 || r == -ENOENT) && elf_section(f, ".go.buildinfo"))
        r = elf_addresses_find(f, ".symtab", SYMBOLS_MAX_BYTES, STT_FUNC, names, FUNCTIONS, addresses);
    if (r < 0 && r != -ENOENT)
        return r;
    const bool is_go = addresses[GO_READ] && addresses[GO_WRITE] && addresses[GO_MEMMOVE];
    if (elf_machine(f) == EM_X86_64) {
        find_sites(f, addresses, &found);
        if (is_go)
            find_go_sites(f, addresses, &found);
    } else if ((addresses[READ] && addresses[WRITE]) || is_go) {
        found.has_functions = true;
        found.declined = "plaintext is read on x86-64 only";
    }
    r = found.has_functions ? 0 : find_boringssl_sites(f, &found);
    if (r == 0)
        r = elf_error(f);
    if (r == 0)
        *ret = found;
    return r;
}
