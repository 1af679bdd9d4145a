/* CPython's structures by version; see python_layout.h. */
#include "resolve/interpreter/python_layout.h"

#include "base/cleanup.h"
#include "resolve/elf/elf_addresses.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (8u << 20)

/* Minor versions of Python 3. */
#define FIRST_MINOR        8
#define WITH_VERSION_MINOR 11 /* first version with Py_Version */
#define WITH_OFFSETS_MINOR 13 /* first version that publishes _Py_DebugOffsets */

/* Common to 3.8, 3.9 and 3.10. */
#define FRAME_OBJECTS                                                                                                  \
    .interpreters = 32, .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 176,           \
    .thread_current = 24, .frame_code = 32, .frame_previous = 24, .code_checked = 48, .code_first_line = 40,           \
    .code_file = 104, .code_name = 112, .code_lines = 120, .text_ascii = 48, .text_compact = 72,                       \
    .code_instructions = PYTHON_BYTES_DATA, .thread_context = 240

/* From 3.13 on: the fields that _Py_DebugOffsets lacks. */
#define OFFSETS_OF_ITS_OWN                                                                                             \
    .code_checked = 72, .text_ascii = 40, .text_compact = 56, .flags = PYTHON_MARKED_FRAMES | PYTHON_GIL_POINTER

static const struct python_layout versions[] = {
    {FRAME_OBJECTS, .interpreter_made = 2664, .gil = 1152 - 32, .frame_instruction = 104, .flags = PYTHON_FRAME_OBJECTS,
     .lines = PYTHON_LINES_LNOTAB, .frame_locals = 360},
    {FRAME_OBJECTS, .interpreter_made = 3496, .gil = 352 - 32, .frame_instruction = 104, .flags = PYTHON_FRAME_OBJECTS,
     .lines = PYTHON_LINES_LNOTAB, .frame_locals = 360},
    {FRAME_OBJECTS, .interpreter_made = 3448, .gil = 352 - 32, .thread_cframe = 48, .thread_root = 264,
     .cframe_current = 8, .frame_instruction = 96, .flags = PYTHON_FRAME_OBJECTS | PYTHON_CFRAMES | PYTHON_IN_WORDS,
     .lines = PYTHON_LINES_RANGES, .frame_locals = 352},
    {.interpreters = 40,
     .interpreter_next = 0,
     .interpreter_threads = 16,
     .interpreter_made = 8,
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
     .flags = PYTHON_CFRAMES,
     .thread_context = 224,
     .frame_locals = 72,
     .gil = 360 - 40},
    {.interpreters = 40,
     .interpreter_next = 0,
     .interpreter_threads = 72,
     .interpreter_made = 64,
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
     .flags = PYTHON_CFRAMES | PYTHON_MARKED_FRAMES | PYTHON_GIL_POINTER,
     .thread_context = 208,
     .frame_locals = 72,
     .gil = 384},
    {OFFSETS_OF_ITS_OWN, .thread_context = 208, .frame_locals = 72, .gil = 16},
    {OFFSETS_OF_ITS_OWN}, /* 3.14: offsets of tasks and of the GIL have not been verified */
};

/* _Py_DebugOffsets, at the start of the runtime: 8-byte words. */
static const char debug_cookie[8] = "xdebugpy";
enum { DEBUG_COOKIE, DEBUG_VERSION, DEBUG_FREE_THREADED, DEBUG_WORDS = 49 };

static const struct {
    uint16_t field;
    uint8_t in_313, in_314;
} debug_words[] = {
#define WORD(field, in_313, in_314)                                                                                    \
    {                                                                                                                  \
        offsetof(struct python_layout, field), in_313, in_314                                                          \
    }
    WORD(interpreters, 5, 5),     WORD(interpreter_next, 8, 8),  WORD(interpreter_threads, 9, 9),
    WORD(thread_next, 21, 24),    WORD(thread_current, 23, 26),  WORD(thread_id, 24, 27),
    WORD(frame_previous, 29, 32), WORD(frame_code, 30, 33),      WORD(frame_instruction, 31, 34),
    WORD(frame_owner, 33, 36),    WORD(code_file, 35, 40),       WORD(code_name, 37, 42),
    WORD(code_lines, 38, 43),     WORD(code_first_line, 39, 44), WORD(code_instructions, 43, 48),
#undef WORD
};

bool python_layout_is_likely(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0;
}

/* The minor version of an interpreter without Py_Version, by API functions that each version introduced. 0: before 3.8.
 */
static unsigned minor_by_functions(const struct elf_file *file, const char *table)
{
    static const char *const news[] = {"PyCode_NewWithPosOnlyArgs", "PyFrame_GetCode",
                                       "Py_NewRef"}; /* 3.8, 3.9, 3.10 */
    uint64_t addresses[array_size(news)] = {0};
    if (elf_addresses_find(file, table, SYMBOLS_MAX_BYTES, STT_FUNC, news, array_size(news), addresses) < 0)
        return 0;
    for (size_t i = array_size(news); i-- > 0;)
        if (addresses[i])
            return FIRST_MINOR + (unsigned)i;
    return 0;
}

struct found {
    uint64_t runtime;
    uint64_t version; /* address of Py_Version; 0: absent, `minor` is set instead */
    unsigned minor;
};

static int find_in_table(const struct elf_file *file, const char *table, struct found *ret)
{
    static const char *const names[] = {"_PyRuntime", "Py_Version"};
    uint64_t addresses[array_size(names)] = {0};
    int r = elf_addresses_find(file, table, SYMBOLS_MAX_BYTES, STT_OBJECT, names, array_size(names), addresses);
    if (r < 0)
        return r;
    *ret = (struct found){.runtime = addresses[0], .version = addresses[1]};
    if (!ret->runtime)
        return -ENOENT;
    if (!ret->version)
        ret->minor = minor_by_functions(file, table);
    return 0;
}

static int read_at(const struct elf_file *file, uint64_t vaddr, void *data, size_t size)
{
    uint64_t offset;
    int r = elf_offset_from_vaddr(file, vaddr, &offset);
    return r < 0 ? r : elf_read(file, offset, data, size);
}

/* Replaces offsets by those in _Py_DebugOffsets, from 3.13 on. -ENOTSUP: the table is absent or unknown, or the build
 * is free-threaded. */
static int read_debug_offsets(const struct elf_file *file, uint64_t runtime_vaddr, unsigned minor,
                              struct python_layout *layout)
{
    uint64_t words[DEBUG_WORDS];
    if (minor < WITH_OFFSETS_MINOR)
        return 0;
    if (read_at(file, runtime_vaddr, words, sizeof(words)) < 0 ||
        memcmp(&words[DEBUG_COOKIE], debug_cookie, sizeof(debug_cookie)) != 0)
        return -ENOTSUP;
    if (words[DEBUG_VERSION] >> 16 != (3U << 8 | minor) || words[DEBUG_FREE_THREADED])
        return -ENOTSUP;
    for (size_t i = 0; i < array_size(debug_words); i++) {
        const uint64_t offset = words[minor == WITH_OFFSETS_MINOR ? debug_words[i].in_313 : debug_words[i].in_314];
        char *field = (char *)layout + debug_words[i].field;
        if (offset > UINT16_MAX)
            return -ENOTSUP;
        if (debug_words[i].field == offsetof(struct python_layout, interpreters))
            layout->interpreters = offset;
        else
            memcpy(field, &(uint16_t){(uint16_t)offset}, sizeof(uint16_t));
    }
    layout->interpreter_made = layout->interpreter_threads - 8; /* pythreads.next_unique_id */
    return 0;
}

int python_layout_read(const struct elf_file *file, bool is_likely, struct python_file *ret)
{
    struct found found;
    int r = find_in_table(file, ".dynsym", &found);
    if (r == -ENOENT && (is_likely || elf_section(file, ".PyRuntime"))) /* 3.13 and later have that section */
        r = find_in_table(file, ".symtab", &found);
    if (r < 0)
        return r;
    if (found.version) {
        uint32_t version;
        r = read_at(file, found.version, &version, sizeof(version));
        if (r < 0)
            return r;
        found.minor = version >> 24 == 3 ? version >> 16 & 0xff : 0;
        if (found.minor < WITH_VERSION_MINOR)
            return -ENOTSUP;
    }
    if (found.minor < FIRST_MINOR || found.minor - FIRST_MINOR >= array_size(versions))
        return -ENOTSUP;
    struct python_file python = {.layout = versions[found.minor - FIRST_MINOR], .runtime_vaddr = found.runtime};
    r = read_debug_offsets(file, found.runtime, found.minor, &python.layout);
    if (r == 0)
        *ret = python;
    return r;
}
