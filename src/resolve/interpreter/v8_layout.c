/* Reads the variables that V8 publishes for debuggers; see v8_layout.h. */
#include "resolve/interpreter/v8_layout.h"

#include "base/cleanup.h"
#include "resolve/elf/elf_symbols.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (12u << 20) /* the names of Node 24 have 6 MiB */
#define WORD              8

/* Tested versions: 10.2, 11.3, 12.4, 13.6. */
#define FIRST_MAJOR     10
#define LAST_MAJOR      13
#define POSITIONS_FIRST 13

/* The variables. Some are matched by a prefix, because the notation of a member's type differs between versions. */
enum variable {
    CONTEXT_FIRST,
    CONTEXT_LAST,
    SHARED_TYPE,
    SCOPE_TYPE,
    SCRIPT_TYPE,
    NOT_STRING,
    FRAME_FUNCTION,
    FRAME_CONTEXT,
    MAP_TYPE,
    FUNCTION_SHARED,
    SHARED_SCOPE,
    SHARED_SCRIPT,
    SCOPE_LOCALS,
    SCOPE_VARIABLES,
    SCRIPT_NAME,
    SCRIPT_LINE_ENDS,
    STRING_LENGTH,
    ONE_BYTE_CHARS,
    TWO_BYTE_CHARS,
    CONS_FIRST,
    CONS_SECOND,
    SLICED_PARENT,
    SLICED_OFFSET,
    THIN_ACTUAL,
    EXTERNAL_RESOURCE,
    TAGGED_SIZE,
    REPRESENTATION,
    ONE_BYTE,
    MAJOR,
    VARIABLE_COUNT,
};

static const char *const variable_names[VARIABLE_COUNT] = {
    [CONTEXT_FIRST] = "v8dbg_FirstContextType",
    [CONTEXT_LAST] = "v8dbg_LastContextType",
    [SHARED_TYPE] = "v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
    [SCOPE_TYPE] = "v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE",
    [SCRIPT_TYPE] = "v8dbg_type_Script__SCRIPT_TYPE",
    [NOT_STRING] = "v8dbg_IsNotStringMask",
    [FRAME_FUNCTION] = "v8dbg_off_fp_function",
    [FRAME_CONTEXT] = "v8dbg_off_fp_context",
    [MAP_TYPE] = "v8dbg_class_Map__instance_type__",
    [FUNCTION_SHARED] = "v8dbg_class_JSFunction__shared__",
    [SHARED_SCOPE] = "v8dbg_class_SharedFunctionInfo__name_or_scope_info__",
    [SHARED_SCRIPT] = "v8dbg_class_SharedFunctionInfo__script_",
    [SCOPE_LOCALS] = "v8dbg_scopeinfo_idx_ncontextlocals",
    [SCOPE_VARIABLES] = "v8dbg_scopeinfo_idx_first_vars",
    [SCRIPT_NAME] = "v8dbg_class_Script__name__",
    [SCRIPT_LINE_ENDS] = "v8dbg_class_Script__line_ends__",
    [STRING_LENGTH] = "v8dbg_class_String__length__",
    [ONE_BYTE_CHARS] = "v8dbg_class_SeqOneByteString__chars__",
    [TWO_BYTE_CHARS] = "v8dbg_class_SeqTwoByteString__chars__",
    [CONS_FIRST] = "v8dbg_class_ConsString__first__",
    [CONS_SECOND] = "v8dbg_class_ConsString__second__",
    [SLICED_PARENT] = "v8dbg_class_SlicedString__parent__",
    [SLICED_OFFSET] = "v8dbg_class_SlicedString__offset__",
    [THIN_ACTUAL] = "v8dbg_class_ThinString__actual__",
    [EXTERNAL_RESOURCE] = "v8dbg_class_ExternalString__resource__",
    [TAGGED_SIZE] = "v8dbg_TaggedSize",
    [REPRESENTATION] = "v8dbg_StringRepresentationMask",
    [ONE_BYTE] = "v8dbg_OneByteStringTag",
    [MAJOR] = "_ZN2v88internal7Version6major_E",
};

bool v8_layout_is_likely(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "node", 4) == 0 || strncmp(name, "libnode", 7) == 0;
}

/* A zero-initialised variable (.bss) has no bytes in the file. */
static int read_int(const struct elf_file *file, uint64_t vaddr, int32_t *ret)
{
    const struct elf_segment *segments;
    const size_t count = elf_segments(file, &segments);
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (vaddr < s->vaddr || vaddr - s->vaddr >= s->memory_bytes)
            continue;
        *ret = 0;
        return vaddr - s->vaddr < s->file_bytes ? elf_read(file, s->offset + (vaddr - s->vaddr), ret, sizeof(*ret)) : 0;
    }
    return -ENOENT;
}

/* The variable that a symbol names, or VARIABLE_COUNT. A table entry that ends in '_' is a prefix. */
static size_t variable_of(const char *symbol)
{
    if (strncmp(symbol, "v8dbg_", 6) != 0 && symbol[0] != '_')
        return VARIABLE_COUNT;
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        const size_t n = strlen(variable_names[i]);
        if (strncmp(symbol, variable_names[i], n) == 0 && (variable_names[i][n - 1] == '_' || !symbol[n]))
            return i;
    }
    return VARIABLE_COUNT;
}

/* Reads all published variables. Absent ones stay 0 and their bit in `*has` is clear. -ENOENT: the file publishes none.
 */
static int read_variables(const struct elf_file *file, int32_t v[VARIABLE_COUNT], uint64_t *has)
{
    _cleanup_(elf_symbols_free) struct elf_symbols symbols = {0};
    int r = elf_symbols_read(file, ".dynsym", SYMBOLS_MAX_BYTES, &symbols);
    if (r < 0)
        return r;
    for (size_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *symbol = &symbols.all[i];
        const char *name = elf_symbols_name(&symbols, symbol);
        const size_t which = name && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT ? variable_of(name) : VARIABLE_COUNT;
        if (which == VARIABLE_COUNT)
            continue;
        r = read_int(file, symbol->st_value, &v[which]);
        if (r < 0)
            return r;
        *has |= 1ULL << which;
    }
    return *has ? 0 : -ENOENT;
}

/* Checks the assumptions of the BPF side. */
static bool is_supported(const int32_t v[VARIABLE_COUNT])
{
    for (size_t i = 0; i < VARIABLE_COUNT; i++)
        if (i != NOT_STRING && i != FRAME_FUNCTION && i != FRAME_CONTEXT && (v[i] < 0 || v[i] > UINT16_MAX))
            return false;
    return v[MAJOR] >= FIRST_MAJOR && v[MAJOR] <= LAST_MAJOR && v[TAGGED_SIZE] == WORD &&
           v[REPRESENTATION] == V8_REPRESENTATION && v[ONE_BYTE] == V8_ONE_BYTE &&
           v[ONE_BYTE_CHARS] == v[TWO_BYTE_CHARS] && v[FRAME_CONTEXT] == v[FRAME_FUNCTION] + WORD &&
           v[FRAME_FUNCTION] >= -128 && v[FRAME_FUNCTION] <= -2 * WORD && v[SCOPE_LOCALS] == 2 &&
           v[SCOPE_VARIABLES] == (v[MAJOR] >= POSITIONS_FIRST ? 5 : 3) && v[CONTEXT_FIRST] > 0 &&
           v[CONTEXT_FIRST] <= v[CONTEXT_LAST] && ((uint32_t)v[NOT_STRING] & UINT16_MAX);
}

/* In all versions a ScopeInfo's words follow its map, and a script's id follows its line ends. */
static struct v8_layout layout_of(const int32_t v[VARIABLE_COUNT])
{
    return (struct v8_layout){
        .context_first = (__u16)v[CONTEXT_FIRST],
        .context_last = (__u16)v[CONTEXT_LAST],
        .shared_type = (__u16)v[SHARED_TYPE],
        .scope_type = (__u16)v[SCOPE_TYPE],
        .script_type = (__u16)v[SCRIPT_TYPE],
        .not_string = (__u16)v[NOT_STRING],
        .frame_function = (__s16)v[FRAME_FUNCTION],
        .map_type = (__u16)v[MAP_TYPE],
        .function_shared = (__u16)v[FUNCTION_SHARED],
        .shared_scope = (__u16)v[SHARED_SCOPE],
        .shared_script = (__u16)v[SHARED_SCRIPT],
        .scope_flags = WORD,
        .scope_variables = (__u16)(WORD + v[SCOPE_VARIABLES] * WORD),
        .script_source = WORD,
        .script_name = (__u16)v[SCRIPT_NAME],
        .script_id = (__u16)(v[SCRIPT_LINE_ENDS] + WORD),
        .string_length = (__u16)v[STRING_LENGTH],
        .string_chars = (__u16)v[ONE_BYTE_CHARS],
        .cons_first = (__u16)v[CONS_FIRST],
        .cons_second = (__u16)v[CONS_SECOND],
        .sliced_parent = (__u16)v[SLICED_PARENT],
        .sliced_offset = (__u16)v[SLICED_OFFSET],
        .thin_actual = (__u16)v[THIN_ACTUAL],
        .external_data = (__u16)(v[EXTERNAL_RESOURCE] + WORD),
        .flags = v[MAJOR] >= POSITIONS_FIRST ? V8_POSITIONS_FIRST : 0,
    };
}

int v8_layout_read(const struct elf_file *file, struct v8_layout *ret)
{
    int32_t v[VARIABLE_COUNT] = {0};
    uint64_t has = 0;
    int r = read_variables(file, v, &has);
    if (r < 0)
        return r;
    if (!(has & 1ULL << FRAME_FUNCTION) && !(has & 1ULL << MAJOR))
        return -ENOENT;
    if (has != (1ULL << VARIABLE_COUNT) - 1 || elf_machine(file) != EM_X86_64 || !is_supported(v))
        return -ENOTSUP;
    *ret = layout_of(v);
    return 0;
}
