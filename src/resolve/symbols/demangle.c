/* Demangles C++ and Rust names with libiberty; see demangle.h. Names come from untrusted files, and a short one can
 * expand without end (substitutions that double) or recurse deeply. Input length is therefore limited, which bounds
 * the stack, and as soon as the output is full the demangler is left by longjmp: its callback interface keeps all
 * state on the stack. */
#include "resolve/symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

const char *demangle_copy(const char *symbol, char out[DEMANGLED_MAX])
{
    size_t size = strnlen(symbol, DEMANGLED_MAX);
    if (size < DEMANGLED_MAX) {
        memcpy(out, symbol, size + 1);
        return out;
    }
    memcpy(out, symbol, DEMANGLED_MAX - 4);
    memcpy(out + DEMANGLED_MAX - 4, "...", 4);
    return out;
}

struct output {
    char *text;
    size_t size;
    bool full;
    jmp_buf enough;
};

static bool is_ascii(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static void output_add(const char *text, size_t size, void *opaque)
{
    struct output *o = opaque;
    size_t available = DEMANGLED_MAX - 1 - o->size;
    if (size == 0)
        return; /* libiberty sometimes passes no text */
    if (size <= available) {
        memcpy(o->text + o->size, text, size);
        o->size += size;
        return;
    }
    memcpy(o->text + o->size, text, available);
    o->size += available;
    o->full = true;
    /* While libiberty prints Rust's punycode identifiers, character by character or whole, it holds allocated
     * memory: no longjmp from there. Such output contains a non-ASCII character, and no other output does. */
    if (size > 1 && is_ascii(text, size))
        longjmp(o->enough, 1);
}

enum language { LANGUAGE_CPLUS, LANGUAGE_RUST };

static bool demangle_as(enum language language, const char *symbol, struct output *o)
{
    int options = DMGL_ANSI;
    o->size = 0;
    o->full = false;
    int ok = 0;
    if (setjmp(o->enough))
        return true;
    if (language == LANGUAGE_RUST) {
        ok = rust_demangle_callback(symbol, options, output_add, o);
    } else {
        /* libiberty's own limit would refuse names longer than 1024 characters; ours is DEMANGLE_SYMBOL_MAX. */
        ok = cplus_demangle_v3_callback(symbol, options | DMGL_NO_RECURSE_LIMIT, output_add, o);
    }
    return ok && (o->size || o->full);
}

/* The suffix that compilers append for a part or a clone of a function: ".cold", ".isra.0", ".llvm.123". NULL: none. */
static const char *clone_suffix(const char *symbol, bool is_rust_legacy)
{
    if (!is_rust_legacy)
        return strchr(symbol, '.');
    const char *hash = strstr(symbol, "17h");
    for (const char *next = hash; next; next = strstr(next + 1, "17h"))
        hash = next;
    const char *end = hash ? strchr(hash, 'E') : NULL;
    return end && end[1] == '.' ? end + 1 : NULL;
}

static void add_text(struct output *o, const char *text, size_t size)
{
    memcpy(o->text + o->size, text, size);
    o->size += size;
}

/* A suffix that does not fit is left out; likewise in add_plt. */
static void add_clone(struct output *o, const char *suffix)
{
    static const char opening[] = " [clone ";
    size_t size = suffix ? strlen(suffix) : 0;
    if (!size || !strncmp(suffix, ".llvm.", 6) || size + sizeof(opening) + 1 > DEMANGLED_MAX - o->size)
        return;
    add_text(o, opening, sizeof(opening) - 1);
    add_text(o, suffix, size);
    add_text(o, "]", 1);
}

#define PLT_SUFFIX "@plt" /* of a PLT stub (symbol_files_name) */

/* The size of the symbol without PLT_SUFFIX, which libiberty refuses after a Rust name and drops after a C++ name. */
static size_t size_without_plt(const char *symbol)
{
    const size_t size = strlen(symbol), suffix_size = sizeof(PLT_SUFFIX) - 1;
    return size > suffix_size && !strcmp(symbol + size - suffix_size, PLT_SUFFIX) ? size - suffix_size : size;
}

static void add_plt(struct output *o)
{
    if (sizeof(PLT_SUFFIX) <= DEMANGLED_MAX - o->size)
        add_text(o, PLT_SUFFIX, sizeof(PLT_SUFFIX) - 1);
}

static bool is_rust_v0(const char *symbol)
{
    return symbol[0] == '_' && symbol[1] == 'R';
}

static bool is_itanium(const char *symbol)
{
    return symbol[0] == '_' && (symbol[1] == 'Z' || !strncmp(symbol, "_GLOBAL_", 8));
}

bool demangle_is_mangled(const char *symbol)
{
    return (is_rust_v0(symbol) || is_itanium(symbol)) && strnlen(symbol, DEMANGLE_SYMBOL_MAX) < DEMANGLE_SYMBOL_MAX;
}

const char *demangle(const char *symbol, char out[DEMANGLED_MAX])
{
    if (!demangle_is_mangled(symbol))
        return demangle_copy(symbol, out);
    const bool is_v0 = is_rust_v0(symbol), is_cplus = is_itanium(symbol);
    const size_t size = size_without_plt(symbol);
    char name[DEMANGLE_SYMBOL_MAX];
    memcpy(name, symbol, size);
    name[size] = '\0';

    struct output o = {.text = out};
    bool is_rust = demangle_as(LANGUAGE_RUST, name, &o);
    const char *suffix = clone_suffix(name, is_rust && !is_v0);
    if (!is_rust) {
        char stem[DEMANGLE_SYMBOL_MAX];
        size_t stem_size = suffix ? (size_t)(suffix - name) : size;
        memcpy(stem, name, stem_size);
        stem[stem_size] = '\0';
        if (!is_cplus || !demangle_as(LANGUAGE_CPLUS, stem, &o))
            return demangle_copy(symbol, out);
    }
    if (!o.full)
        add_clone(&o, suffix);
    if (!o.full && symbol[size])
        add_plt(&o);
    if (o.full)
        memcpy(out + DEMANGLED_MAX - 4, "...", 3);
    out[o.full ? DEMANGLED_MAX - 1 : o.size] = '\0';
    return out;
}
