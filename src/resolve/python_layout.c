/* CPython's structures by version; see python_layout.h. */
#include "resolve/python_layout.h"

#include "base/cleanup.h"
#include "resolve/elf.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (16u << 20)

/* Minor versions of Python 3. */
#define FIRST_MINOR 11

static const struct python_layout versions[] = {
    {.interpreters = 40,
     .interpreter_next = 0,
     .interpreter_threads = 16,
     .thread_next = 8,
     .thread_id = 152,
     .thread_current = 56,
     .cframe_current = 8,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_owner = 68, /* is_entry */
     .code_checked = 72,
     .code_first_line = 72,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .text_ascii = 48,
     .text_compact = 72,
     .code_instructions = 184,
     .flags = PYTHON_CFRAMES},
    {.interpreters = 40,
     .interpreter_next = 0,
     .interpreter_threads = 72,
     .thread_next = 8,
     .thread_id = 136,
     .thread_current = 56,
     .cframe_current = 0,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_checked = 72,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .text_ascii = 40,
     .text_compact = 56,
     .code_instructions = 192,
     .flags = PYTHON_CFRAMES | PYTHON_MARKED_FRAMES},
    {.interpreters = 632,
     .interpreter_next = 7264,
     .interpreter_threads = 7344,
     .thread_next = 8,
     .thread_id = 152,
     .thread_current = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_checked = 72,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .text_ascii = 40,
     .text_compact = 56,
     .code_instructions = 200,
     .flags = PYTHON_MARKED_FRAMES},
};

/* Where the runtime begins with a table of offsets, _Py_DebugOffsets: words of 8 bytes. */
static const char debug_cookie[8] = "xdebugpy";
enum { DEBUG_COOKIE, DEBUG_VERSION, DEBUG_FREE_THREADED, DEBUG_WORDS_313 = 44 };

#define WORD(field, number) {offsetof(struct python_layout, field), (number)}

static const struct {
    uint16_t field, word;
} debug_words_313[] = {
    WORD(interpreters, 5),       WORD(interpreter_next, 8), WORD(interpreter_threads, 9), WORD(thread_next, 21),
    WORD(thread_current, 23),    WORD(thread_id, 24),       WORD(frame_previous, 29),     WORD(frame_code, 30),
    WORD(frame_instruction, 31), WORD(frame_owner, 33),     WORD(code_file, 35),          WORD(code_name, 37),
    WORD(code_lines, 38),        WORD(code_first_line, 39), WORD(code_instructions, 43),
};

bool python_layout_is_likely(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0;
}

/* Which address a symbol of data has; -ENOENT. */
static int find_symbol(const Elf64_Sym *symbols, size_t count, const char *names, size_t name_bytes,
                       const char *name, uint64_t *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (symbols[i].st_shndx == SHN_UNDEF || symbols[i].st_name >= name_bytes ||
            ELF64_ST_TYPE(symbols[i].st_info) != STT_OBJECT)
            continue;
        if (strcmp(names + symbols[i].st_name, name) != 0) /* ends: there is one byte more than names has */
            continue;
        *ret = symbols[i].st_value;
        return 0;
    }
    return -ENOENT;
}

static int find_in_table(const struct elf_file *file, const char *table, uint64_t *ret_runtime,
                         uint64_t *ret_version)
{
    const struct elf_section *sections, *symbols = elf_section(file, table);
    size_t count = elf_sections(file, &sections);
    if (!symbols || symbols->link >= count)
        return -ENOENT;
    _cleanup_free_ void *data = NULL, *names = NULL;
    size_t size, name_bytes;
    int r = elf_section_data(file, symbols, SYMBOLS_MAX_BYTES, &data, &size);
    if (r == 0)
        r = elf_section_data(file, &sections[symbols->link], SYMBOLS_MAX_BYTES, &names, &name_bytes);
    if (r < 0)
        return r;
    ((char *)names)[name_bytes] = '\0';
    size /= sizeof(Elf64_Sym);
    r = find_symbol(data, size, names, name_bytes, "_PyRuntime", ret_runtime);
    if (r == 0 && find_symbol(data, size, names, name_bytes, "Py_Version", ret_version) < 0)
        *ret_version = 0; /* before 3.11 */
    return r;
}

static int read_at(const struct elf_file *file, uint64_t vaddr, void *data, size_t size)
{
    uint64_t offset;
    int r = elf_offset_from_vaddr(file, vaddr, &offset);
    return r < 0 ? r : elf_read(file, offset, data, size);
}

/* What the runtime says of itself in the file, where it does: -ENOTSUP when that is what we do not understand. */
static int take_debug_offsets(const struct elf_file *file, uint64_t runtime_vaddr, unsigned minor,
                              struct python_layout *layout)
{
    uint64_t words[DEBUG_WORDS_313];
    if (read_at(file, runtime_vaddr, words, sizeof(words)) < 0 ||
        memcmp(&words[DEBUG_COOKIE], debug_cookie, sizeof(debug_cookie)) != 0)
        return minor < 13 ? 0 : -ENOTSUP;
    if (words[DEBUG_VERSION] >> 16 != (3U << 8 | minor) || words[DEBUG_FREE_THREADED])
        return -ENOTSUP;
    for (size_t i = 0; i < array_size(debug_words_313); i++) {
        const uint64_t offset = words[debug_words_313[i].word];
        char *field = (char *)layout + debug_words_313[i].field;
        if (offset > UINT16_MAX)
            return -ENOTSUP;
        if (debug_words_313[i].field == offsetof(struct python_layout, interpreters))
            layout->interpreters = offset;
        else
            memcpy(field, &(uint16_t){(uint16_t)offset}, sizeof(uint16_t));
    }
    return 0;
}

int python_layout_read(const struct elf_file *file, struct python_file *ret)
{
    uint64_t runtime, version_vaddr;
    uint32_t version;
    int r = find_in_table(file, ".dynsym", &runtime, &version_vaddr);
    if (r == -ENOENT)
        r = find_in_table(file, ".symtab", &runtime, &version_vaddr);
    if (r < 0)
        return r;
    if (version_vaddr == 0)
        return -ENOTSUP;
    r = read_at(file, version_vaddr, &version, sizeof(version));
    if (r < 0)
        return r;
    const unsigned minor = version >> 16 & 0xff;
    if (version >> 24 != 3 || minor < FIRST_MINOR || minor - FIRST_MINOR >= array_size(versions))
        return -ENOTSUP;
    struct python_file found = {.layout = versions[minor - FIRST_MINOR], .runtime_vaddr = runtime};
    r = take_debug_offsets(file, runtime, minor, &found.layout);
    if (r == 0)
        *ret = found;
    return r;
}
