/* Parser of HotSpot's tables for debuggers; see hotspot_layout.h. */
#include "resolve/interpreter/hotspot_layout.h"

#include "base/cleanup.h"
#include "resolve/elf/elf_addresses.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (8u << 20)
#define TEXTS_MAX_BYTES   (8u << 20)
#define DATA_MAX_BYTES    (8u << 20)
#define ENTRIES_MAX       8192
#define STRIDE_MAX        256

#define BLOB_MAX                                                                                                       \
    (256 - 8) /* the BPF side reads these fields in one go: HOTSPOT_BLOB_BYTES, HOTSPOT_CODE_BYTES in hotspot.bpf.h */
#define CONST_MAX          (64 - 8)
#define OFFSET_MAX         4096

#define NUMBERS_BY_1_FIRST 20 /* the first version with HOTSPOT_NUMBERS_BY_1 */

static const char *const symbol_names[HOTSPOT_SYMBOL_COUNT] = {
    [HOTSPOT_STRUCTS] = "gHotSpotVMStructs",
    [HOTSPOT_STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
    [HOTSPOT_STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
    [HOTSPOT_STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
    [HOTSPOT_STRUCT_KIND] = "gHotSpotVMStructEntryTypeStringOffset",
    [HOTSPOT_STRUCT_STATIC] = "gHotSpotVMStructEntryIsStaticOffset",
    [HOTSPOT_STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
    [HOTSPOT_STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
    [HOTSPOT_TYPES] = "gHotSpotVMTypes",
    [HOTSPOT_TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
    [HOTSPOT_TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
    [HOTSPOT_TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
    [HOTSPOT_INTS] = "gHotSpotVMIntConstants",
    [HOTSPOT_INT_STRIDE] = "gHotSpotVMIntConstantEntryArrayStride",
    [HOTSPOT_INT_NAME] = "gHotSpotVMIntConstantEntryNameOffset",
    [HOTSPOT_INT_VALUE] = "gHotSpotVMIntConstantEntryValueOffset",
};

/* ---- the file ---- */

static int find_symbols(const struct elf_file *elf, struct hotspot_file *file)
{
    int r = elf_addresses_find(elf, ".dynsym", SYMBOLS_MAX_BYTES, STT_OBJECT, symbol_names, HOTSPOT_SYMBOL_COUNT,
                               file->symbols);
    if (r < 0)
        return r;
    for (size_t i = 0; i < HOTSPOT_SYMBOL_COUNT; i++)
        if (!file->symbols[i])
            return -ENOENT;
    return 0;
}

int hotspot_file_read(const struct elf_file *elf, struct hotspot_file *ret)
{
    struct hotspot_file file = {0};
    int r = find_symbols(elf, &file);
    if (r < 0)
        return r;
    if (elf_machine(elf) != EM_X86_64)
        return -ENOTSUP;
    const struct elf_segment *segments;
    const size_t count = elf_segments(elf, &segments);
    for (size_t i = 0; i < count; i++)
        if (file.symbols[HOTSPOT_STRUCTS] - segments[i].vaddr < segments[i].memory_bytes) {
            file.data_vaddr = segments[i].vaddr;
            file.data_bytes = segments[i].memory_bytes;
        }
    if (file.data_bytes == 0 || file.data_bytes > DATA_MAX_BYTES)
        return -ENOTSUP;
    *ret = file;
    return 0;
}

int hotspot_file_texts(const struct elf_file *elf, void **ret, size_t *ret_size, uint64_t *ret_vaddr)
{
    const struct elf_section *texts = elf_section(elf, ".rodata");
    if (!texts)
        return -ENOTSUP;
    *ret_vaddr = texts->vaddr;
    int r = elf_section_data(elf, texts, TEXTS_MAX_BYTES, ret, ret_size);
    if (r == 0)
        ((char *)*ret)[*ret_size] = '\0';
    return r;
}

/* ---- the image ---- */

/* False: outside the data segment. */
static bool read_word(const struct hotspot_image *m, uint64_t vaddr, uint64_t *ret)
{
    const uint64_t at = vaddr - m->file->data_vaddr;
    if (at >= m->file->data_bytes || m->file->data_bytes - at < sizeof(*ret))
        return false;
    memcpy(ret, m->data + at, sizeof(*ret));
    return true;
}

/* The string at a process address; "" if it is NULL or outside .rodata. */
static const char *text_at(const struct hotspot_image *m, uint64_t address)
{
    const uint64_t at = address - m->bias - m->texts_vaddr;
    return address && at < m->text_bytes ? m->texts + at : "";
}

struct table {
    enum hotspot_symbol pointer; /* the symbols after it are its stride and its field offsets */
    uint64_t vaddr, stride;
    uint64_t fields[6]; /* offsets within an entry */
};

static int open_table(const struct hotspot_image *m, enum hotspot_symbol pointer, size_t field_count, struct table *ret)
{
    const uint64_t *symbols = &m->file->symbols[pointer];
    uint64_t address;
    if (!read_word(m, symbols[0], &address) || !read_word(m, symbols[1], &ret->stride))
        return -EBADMSG;
    if (address == 0 || ret->stride == 0)
        return -EAGAIN;
    if (ret->stride > STRIDE_MAX || ret->stride < 16)
        return -EBADMSG;
    ret->pointer = pointer;
    ret->vaddr = address - m->bias;
    for (size_t i = 0; i < field_count; i++)
        if (!read_word(m, symbols[2 + i], &ret->fields[i]) || ret->fields[i] > ret->stride - 4)
            return -EBADMSG;
    return 0;
}

/* The field of entry `number` whose offset the symbol `field` gives; 0 if it is out of range. */
static uint64_t entry_word(const struct hotspot_image *m, const struct table *t, size_t number,
                           enum hotspot_symbol field)
{
    uint64_t word = 0;
    return read_word(m, t->vaddr + number * t->stride + t->fields[field - t->pointer - 2], &word) ? word : 0;
}

/* ---- the fields that the walk needs ---- */

enum want_flags {
    WANT_STATIC = 1, /* a static field (enum static_field) */
    WANT_INT = 2,    /* the field's type must be int */
    WANT_PIECE = 4,  /* a nested field: add its offset to the previous row's */
    WANT_ELSE = 8,   /* alternative to the previous row */
    WANT_OPTIONAL = 16,
};

/* The first rows of `wants`. */
enum static_field { HEAPS, LOW_BOUND, HIGH_BOUND, INTERPRETER, STATIC_FIELD_COUNT };

#define FIELD(name) (uint16_t) offsetof(struct hotspot_layout, name)
/* Rows for the same member of the layout must be consecutive. */
static const struct want {
    const char *type, *field;
    uint16_t to, max;
    uint8_t flags, sets; /* HOTSPOT_* */
} wants[] = {
    [HEAPS] = {"CodeCache", "_heaps", 0, 0, WANT_STATIC, 0},
    [LOW_BOUND] = {"CodeCache", "_low_bound", 0, 0, WANT_STATIC, 0},
    [HIGH_BOUND] = {"CodeCache", "_high_bound", 0, 0, WANT_STATIC, 0},
    [INTERPRETER] = {"AbstractInterpreter", "_code", 0, 0, WANT_STATIC, 0},
    {"GrowableArrayBase", "_len", FIELD(list_count), OFFSET_MAX, WANT_INT, 0},
    {"GenericGrowableArray", "_len", FIELD(list_count), OFFSET_MAX, WANT_INT | WANT_ELSE, 0},
    {"GrowableArray<int>", "_data", FIELD(list_items), OFFSET_MAX, 0, 0},
    {"CodeHeap", "_memory", FIELD(heap_low), OFFSET_MAX, 0, 0},
    {"VirtualSpace", "_low", FIELD(heap_low), OFFSET_MAX, WANT_PIECE, 0},
    {"CodeHeap", "_segmap", FIELD(heap_segments), OFFSET_MAX, 0, 0},
    {"VirtualSpace", "_low", FIELD(heap_segments), OFFSET_MAX, WANT_PIECE, 0},
    {"CodeHeap", "_log2_segment_size", FIELD(heap_shift), OFFSET_MAX, WANT_INT, 0},
    {"HeapBlock", "_header", FIELD(block_used), 16, 0, 0},
    {"HeapBlock::Header", "_used", FIELD(block_used), 16, WANT_PIECE, 0},
    {"CodeBlob", "_size", FIELD(blob_bytes), BLOB_MAX, WANT_INT, 0},
    {"CodeBlob", "_frame_complete_offset", FIELD(blob_complete), BLOB_MAX, 0, 0},
    {"CodeBlob", "_frame_size", FIELD(blob_frame), BLOB_MAX, WANT_INT, 0},
    {"CodeBlob", "_code_begin", FIELD(blob_code), BLOB_MAX, 0, 0},
    {"CodeBlob", "_code_offset", FIELD(blob_code), BLOB_MAX, WANT_INT | WANT_ELSE, HOTSPOT_CODE_OFFSET},
    {"CodeBlob", "_name", FIELD(blob_name), BLOB_MAX, 0, 0},
    {"CodeBlob", "_kind", FIELD(blob_kind), BLOB_MAX, WANT_OPTIONAL, HOTSPOT_KINDS},
    {"CompiledMethod", "_method", FIELD(blob_method), BLOB_MAX, 0, 0},
    {"nmethod", "_method", FIELD(blob_method), BLOB_MAX, WANT_ELSE, 0},
    {"StubQueue", "_stub_buffer", FIELD(queue_start), OFFSET_MAX, 0, 0},
    {"StubQueue", "_buffer_limit", FIELD(queue_bytes), OFFSET_MAX, WANT_INT, 0},
    {"Method", "_constMethod", FIELD(method_const), OFFSET_MAX, 0, 0},
    {"ConstMethod", "_constants", FIELD(const_pool), CONST_MAX, 0, 0},
    {"ConstMethod", "_code_size", FIELD(const_code_bytes), CONST_MAX, 0, 0},
    {"ConstMethod", "_name_index", FIELD(const_name), CONST_MAX, 0, 0},
    {"ConstMethod", "_signature_index", FIELD(const_signature), CONST_MAX, 0, 0},
    {"ConstantPool", "_pool_holder", FIELD(pool_holder), OFFSET_MAX, 0, 0},
    {"ConstantPool", "_source_file_name_index", FIELD(source_file), OFFSET_MAX, 0, 0},
    {"InstanceKlass", "_source_file_name_index", FIELD(source_file), OFFSET_MAX, WANT_ELSE, HOTSPOT_SOURCE_IN_CLASS},
    {"Klass", "_name", FIELD(class_name), OFFSET_MAX, 0, 0},
    {"Symbol", "_length", FIELD(symbol_length), 64, 0, 0},
    {"Symbol", "_body", FIELD(symbol_body), 64, 0, 0},
};

/* Fields that only lines and inlined methods need. Without them, or with others, the JVM is supported without lines. */
enum line_field {
    CONST_WORDS,
    CONST_FLAGS,
    CONST_FLAGS_21,
    PCS_OFFSET,
    DEPENDENCIES_OFFSET,
    SCOPES_BEGIN,
    METADATA_OFFSET,
    SCOPES_OFFSET,
    IMMUTABLE_DATA,
    MUTABLE_DATA,
    RELOCATION_BYTES,
    LINE_FIELD_COUNT,
};

static const struct {
    const char *type, *field, *kind;
    uint16_t max;
} line_fields[LINE_FIELD_COUNT] = {
    [CONST_WORDS] = {"ConstMethod", "_constMethod_size", "int", CONST_MAX},
    [CONST_FLAGS] = {"ConstMethod", "_flags", "u2", CONST_MAX},
    [CONST_FLAGS_21] = {"ConstMethod", "_flags._flags", "u4", CONST_MAX},
    [PCS_OFFSET] = {"nmethod", "_scopes_pcs_offset", "int", OFFSET_MAX},
    [DEPENDENCIES_OFFSET] = {"nmethod", "_dependencies_offset", "int", OFFSET_MAX},
    [SCOPES_BEGIN] = {"CompiledMethod", "_scopes_data_begin", "address", OFFSET_MAX},
    [METADATA_OFFSET] = {"nmethod", "_metadata_offset", "int", OFFSET_MAX},
    [SCOPES_OFFSET] = {"nmethod", "_scopes_data_offset", "int", OFFSET_MAX},
    [IMMUTABLE_DATA] = {"nmethod", "_immutable_data", "address", OFFSET_MAX},
    [MUTABLE_DATA] = {"CodeBlob", "_mutable_data", "address", OFFSET_MAX},
    [RELOCATION_BYTES] = {"CodeBlob", "_relocation_size", "int", BLOB_MAX},
};

struct reading {
    struct hotspot_layout layout;
    bool found[array_size(wants)];
    uint64_t statics[STATIC_FIELD_COUNT]; /* addresses */
    uint64_t low, high;
    bool has_lines_bit;
    uint16_t line_field[LINE_FIELD_COUNT]; /* offsets; 0: absent */
    uint64_t version;                      /* address of the major version; 0: unknown */
};

static int set_field(struct reading *x, size_t number, const char *kind, bool is_static, uint64_t offset,
                     uint64_t address)
{
    const struct want *w = &wants[number];
    char *to = (char *)&x->layout + w->to;
    if (is_static != !!(w->flags & WANT_STATIC) || x->found[number])
        return -EBADMSG;
    x->found[number] = true;
    if (is_static) {
        x->statics[number] = address;
        return address ? 0 : -EBADMSG;
    }
    uint16_t sum = 0;
    if (w->flags & WANT_INT && strcmp(kind, "int") != 0)
        return -ENOTSUP;
    memcpy(&sum, to, sizeof(sum));
    if (offset > w->max || sum + offset > w->max)
        return -ENOTSUP;
    sum = (uint16_t)(sum + offset);
    memcpy(to, &sum, sizeof(sum));
    x->layout.flags |= w->sets;
    return 0;
}

static void note_line_field(struct reading *x, const char *type, const char *field, const char *kind, uint64_t offset)
{
    for (size_t i = 0; i < LINE_FIELD_COUNT; i++)
        if (strcmp(type, line_fields[i].type) == 0 && strcmp(field, line_fields[i].field) == 0 &&
            strcmp(kind, line_fields[i].kind) == 0 && offset <= line_fields[i].max)
            x->line_field[i] = (uint16_t)offset;
}

static int read_struct_entry(struct reading *x, const struct hotspot_image *m, const struct table *t, size_t number)
{
    const char *type = text_at(m, entry_word(m, t, number, HOTSPOT_STRUCT_TYPE));
    const char *field = text_at(m, entry_word(m, t, number, HOTSPOT_STRUCT_FIELD));
    const char *kind = text_at(m, entry_word(m, t, number, HOTSPOT_STRUCT_KIND));
    const uint64_t offset = entry_word(m, t, number, HOTSPOT_STRUCT_OFFSET);
    for (size_t i = 0; i < array_size(wants); i++) {
        if (strcmp(type, wants[i].type) != 0 || strcmp(field, wants[i].field) != 0)
            continue;
        int r = set_field(x, i, kind, (uint32_t)entry_word(m, t, number, HOTSPOT_STRUCT_STATIC) != 0, offset,
                          entry_word(m, t, number, HOTSPOT_STRUCT_ADDRESS));
        if (r < 0)
            return r;
        if (wants[i].to == FIELD(blob_complete) && strcmp(kind, "int") != 0) {
            if (strcmp(kind, "int16_t") != 0)
                return -ENOTSUP;
            x->layout.flags |= HOTSPOT_SHORT_COMPLETE;
        }
    }
    note_line_field(x, type, field, kind, offset);
    if (strcmp(type, "Abstract_VM_Version") == 0 && strcmp(field, "_vm_major_version") == 0)
        x->version = entry_word(m, t, number, HOTSPOT_STRUCT_ADDRESS);
    if (strcmp(type, "VirtualSpace") == 0 && strcmp(field, "_low") == 0)
        x->low = offset;
    if (strcmp(type, "VirtualSpace") == 0 && strcmp(field, "_high") == 0)
        x->high = offset;
    return 0;
}

static int read_structs(struct reading *x, const struct hotspot_image *m)
{
    struct table t;
    int r = open_table(m, HOTSPOT_STRUCTS, 6, &t);
    for (size_t i = 0; r == 0 && i < ENTRIES_MAX && entry_word(m, &t, i, HOTSPOT_STRUCT_TYPE); i++)
        r = read_struct_entry(x, m, &t, i);
    return r;
}

static int read_types(struct reading *x, const struct hotspot_image *m)
{
    struct table t;
    int r = open_table(m, HOTSPOT_TYPES, 2, &t);
    for (size_t i = 0; r == 0 && i < ENTRIES_MAX && entry_word(m, &t, i, HOTSPOT_TYPE_NAME); i++) {
        const char *name = text_at(m, entry_word(m, &t, i, HOTSPOT_TYPE_NAME));
        const uint64_t size = entry_word(m, &t, i, HOTSPOT_TYPE_SIZE);
        if (strcmp(name, "HeapBlock") == 0)
            x->layout.block_bytes = size <= 24 ? (uint16_t)size : 0;
        else if (strcmp(name, "ConstantPool") == 0)
            x->layout.pool_bytes = size <= OFFSET_MAX ? (uint16_t)size : 0;
        else if (strcmp(name, "ConstMethod") == 0)
            x->layout.const_bytes = size <= UINT8_MAX ? (uint8_t)size : 0;
    }
    return r;
}

/* Whether a constant differs from the known layout of interpreted frames. Versions that do not publish these constants
 * pass. */
static bool is_unknown_frame_layout(const char *name, int32_t value)
{
    return (strcmp(name, "frame::interpreter_frame_sender_sp_offset") == 0 && value != -1) ||
           (strcmp(name, "frame::interpreter_frame_last_sp_offset") == 0 && value != -2);
}

static int read_ints(struct reading *x, const struct hotspot_image *m)
{
    struct table t;
    int r = open_table(m, HOTSPOT_INTS, 2, &t);
    for (size_t i = 0; r == 0 && i < ENTRIES_MAX && entry_word(m, &t, i, HOTSPOT_INT_NAME); i++) {
        const char *name = text_at(m, entry_word(m, &t, i, HOTSPOT_INT_NAME));
        const int32_t value = (int32_t)entry_word(m, &t, i, HOTSPOT_INT_VALUE);
        if (is_unknown_frame_layout(name, value))
            return -ENOTSUP;
        if (strcmp(name, "CodeBlobKind::Nmethod") == 0)
            x->layout.kind_nmethod = value > 0 && value < 256 ? (uint8_t)value : 0;
        else if (strcmp(name, "ConstMethod::_has_linenumber_table") == 0 ||
                 strcmp(name, "ConstMethodFlags::_misc_has_linenumber_table") == 0)
            x->has_lines_bit = value == HOTSPOT_HAS_LINES;
    }
    return r;
}

/* Whether every required field, or its alternative, was found. */
static bool is_complete(const struct reading *x)
{
    for (size_t i = 0; i < array_size(wants); i++) {
        const bool has_else = i + 1 < array_size(wants) && wants[i + 1].flags & WANT_ELSE;
        const bool any =
            x->found[i] || (has_else && x->found[i + 1]) || (wants[i].flags & WANT_ELSE && x->found[i - 1]);
        if (!any && !(wants[i].flags & WANT_OPTIONAL))
            return false;
    }
    return x->layout.block_bytes && x->layout.pool_bytes &&
           (!(x->layout.flags & HOTSPOT_KINDS) || x->layout.kind_nmethod);
}

/* False: too far from each other. */
static bool set_statics(struct reading *x)
{
    int64_t distance[STATIC_FIELD_COUNT];
    for (size_t i = 0; i < STATIC_FIELD_COUNT; i++) {
        distance[i] = (int64_t)(x->statics[i] - x->statics[HEAPS]);
        if (distance[i] < INT32_MIN || distance[i] > INT32_MAX)
            return false;
    }
    x->layout.heaps = x->statics[HEAPS];
    x->layout.low_bound = (int32_t)distance[LOW_BOUND];
    x->layout.high_bound = (int32_t)distance[HIGH_BOUND];
    x->layout.interpreter = (int32_t)distance[INTERPRETER];
    return true;
}

/* Completes the layout of line tables, and of the debug data that compiled code keeps for its instructions: before 23
 * within the nmethod, since 25 in two areas of its own. */
static void set_lines(struct reading *x, const struct hotspot_image *m)
{
    struct hotspot_layout *l = &x->layout;
    const uint16_t *f = x->line_field;
    uint64_t version = 0;
    if (!x->version || !read_word(m, x->version - m->bias, &version) || !f[CONST_WORDS] ||
        !(f[CONST_FLAGS] || f[CONST_FLAGS_21]) || !l->const_bytes || !x->has_lines_bit)
        return;
    l->const_words = (uint8_t)f[CONST_WORDS];
    l->const_flags = (uint8_t)(f[CONST_FLAGS] ?: f[CONST_FLAGS_21]);
    l->flags |= HOTSPOT_LINES | ((uint32_t)version >= NUMBERS_BY_1_FIRST ? HOTSPOT_NUMBERS_BY_1 : 0);
    l->pcs_from = f[PCS_OFFSET];
    if (f[PCS_OFFSET] && f[DEPENDENCIES_OFFSET] && f[SCOPES_BEGIN] && f[METADATA_OFFSET]) {
        l->pcs_to = f[DEPENDENCIES_OFFSET];
        l->scopes = f[SCOPES_BEGIN];
        l->metadata = f[METADATA_OFFSET];
        l->flags |= HOTSPOT_SCOPES;
    } else if (f[PCS_OFFSET] && f[SCOPES_OFFSET] && f[IMMUTABLE_DATA] && f[MUTABLE_DATA] && f[RELOCATION_BYTES]) {
        l->pcs_to = f[SCOPES_OFFSET];
        l->scopes = f[IMMUTABLE_DATA];
        l->metadata = f[MUTABLE_DATA];
        l->relocations = (uint8_t)f[RELOCATION_BYTES];
        l->flags |= HOTSPOT_SCOPES | HOTSPOT_APART;
    }
}

int hotspot_layout_read(const struct hotspot_image *m, struct hotspot_layout *ret)
{
    struct reading x = {0};
    int r = read_structs(&x, m);
    if (r == 0)
        r = read_types(&x, m);
    if (r == 0)
        r = read_ints(&x, m);
    if (r < 0)
        return r;
    if (!is_complete(&x))
        return -ENOTSUP;
    if (!x.layout.method_const || !x.layout.blob_bytes || !x.layout.pool_holder || !x.high)
        return -EAGAIN;
    if (x.high != x.low + 8)
        return -ENOTSUP;
    if (!set_statics(&x))
        return -ENOTSUP;
    set_lines(&x, m);
    *ret = x.layout;
    return 0;
}
