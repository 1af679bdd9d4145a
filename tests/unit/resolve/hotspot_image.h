/* Process memory with the tables that HotSpot publishes, as of 17 and as of 25, for tests of their readers. */
#pragma once

#include "resolve/interpreter/hotspot_layout.h"

#include <stdbool.h>
#include <string.h>

#define IMAGE_BIAS    0x7f0000000000ULL
#define DATA_VADDR    0x1000000ULL
#define TEXTS_VADDR   0x800000ULL
#define STRUCTS_AT    0x1000
#define TYPES_AT      0x8000
#define INTS_AT       0xa000
#define VERSION_AT    0xb000
#define IMAGE_BYTES   0xc000
#define STRUCT_STRIDE 48
#define TYPE_STRIDE   40
#define INT_STRIDE    16

struct hotspot_memory {
    struct hotspot_image image;
    struct hotspot_file file;
    uint8_t data[IMAGE_BYTES];
    char texts[16384];
    size_t structs, types, ints;
};

static inline void image_set(struct hotspot_memory *m, size_t at, uint64_t word)
{
    memcpy(m->data + at, &word, sizeof(word));
}

static inline uint64_t image_text(struct hotspot_memory *m, const char *text)
{
    const uint64_t at = m->image.text_bytes;
    memcpy(m->texts + at, text, strlen(text) + 1);
    m->image.text_bytes += strlen(text) + 1;
    return IMAGE_BIAS + TEXTS_VADDR + at;
}

static inline void image_field(struct hotspot_memory *m, const char *type, const char *field, const char *kind,
                               bool is_static, uint64_t value)
{
    const size_t at = STRUCTS_AT + m->structs++ * STRUCT_STRIDE;
    image_set(m, at, image_text(m, type));
    image_set(m, at + 8, image_text(m, field));
    image_set(m, at + 16, image_text(m, kind));
    image_set(m, at + 24, is_static);
    image_set(m, at + (is_static ? 40 : 32), value);
}

static inline void image_type(struct hotspot_memory *m, const char *name, uint64_t size)
{
    const size_t at = TYPES_AT + m->types++ * TYPE_STRIDE;
    image_set(m, at, image_text(m, name));
    image_set(m, at + 32, size);
}

static inline void image_int(struct hotspot_memory *m, const char *name, int32_t value)
{
    const size_t at = INTS_AT + m->ints++ * INT_STRIDE;
    image_set(m, at, image_text(m, name));
    image_set(m, at + 8, (uint32_t)value);
}

/* Tables without entries. */
static inline void image_begin(struct hotspot_memory *m)
{
    static const uint64_t values[HOTSPOT_SYMBOL_COUNT] = {
        [HOTSPOT_STRUCTS] = IMAGE_BIAS + DATA_VADDR + STRUCTS_AT,
        [HOTSPOT_STRUCT_STRIDE] = STRUCT_STRIDE,
        [HOTSPOT_STRUCT_FIELD] = 8,
        [HOTSPOT_STRUCT_KIND] = 16,
        [HOTSPOT_STRUCT_STATIC] = 24,
        [HOTSPOT_STRUCT_OFFSET] = 32,
        [HOTSPOT_STRUCT_ADDRESS] = 40,
        [HOTSPOT_TYPES] = IMAGE_BIAS + DATA_VADDR + TYPES_AT,
        [HOTSPOT_TYPE_STRIDE] = TYPE_STRIDE,
        [HOTSPOT_TYPE_SIZE] = 32,
        [HOTSPOT_INTS] = IMAGE_BIAS + DATA_VADDR + INTS_AT,
        [HOTSPOT_INT_STRIDE] = INT_STRIDE,
        [HOTSPOT_INT_VALUE] = 8,
    };
    memset(m, 0, sizeof(*m));
    for (size_t i = 0; i < HOTSPOT_SYMBOL_COUNT; i++) {
        m->file.symbols[i] = DATA_VADDR + 8 * i;
        image_set(m, 8 * i, values[i]);
    }
    m->file.data_vaddr = DATA_VADDR;
    m->file.data_bytes = IMAGE_BYTES;
    m->image = (struct hotspot_image){
        .file = &m->file, .bias = IMAGE_BIAS, .data = m->data, .texts = m->texts, .texts_vaddr = TEXTS_VADDR};
}

/* Entries that all versions have. */
static inline void image_common(struct hotspot_memory *m)
{
    image_begin(m);
    image_field(m, "CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", true, 0xa000);
    image_field(m, "CodeCache", "_low_bound", "address", true, 0xa008);
    image_field(m, "CodeCache", "_high_bound", "address", true, 0xa010);
    image_field(m, "AbstractInterpreter", "_code", "StubQueue*", true, 0xa018);
    image_field(m, "GrowableArray<int>", "_data", "int*", false, 8);
    image_field(m, "CodeHeap", "_memory", "VirtualSpace", false, 8);
    image_field(m, "CodeHeap", "_segmap", "VirtualSpace", false, 120);
    image_field(m, "CodeHeap", "_log2_segment_size", "int", false, 256);
    image_field(m, "VirtualSpace", "_low", "char*", false, 16);
    image_field(m, "VirtualSpace", "_high", "char*", false, 24);
    image_field(m, "HeapBlock", "_header", "HeapBlock::Header", false, 0);
    image_field(m, "HeapBlock::Header", "_used", "bool", false, 8);
    image_field(m, "CodeBlob", "_size", "int", false, 12);
    image_field(m, "CodeBlob", "_frame_size", "int", false, 28);
    image_field(m, "CodeBlob", "_name", "const char*", false, 96);
    image_field(m, "StubQueue", "_stub_buffer", "address", false, 8);
    image_field(m, "StubQueue", "_buffer_limit", "int", false, 20);
    image_field(m, "Method", "_constMethod", "ConstMethod*", false, 8);
    image_field(m, "ConstMethod", "_constants", "ConstantPool*", false, 8);
    image_field(m, "ConstMethod", "_code_size", "u2", false, 40);
    image_field(m, "ConstMethod", "_name_index", "u2", false, 42);
    image_field(m, "ConstMethod", "_signature_index", "u2", false, 44);
    image_field(m, "ConstantPool", "_pool_holder", "InstanceKlass*", false, 24);
    image_field(m, "Klass", "_name", "Symbol*", false, 24);
    image_field(m, "Symbol", "_length", "u2", false, 4);
    image_field(m, "Symbol", "_body", "", false, 6);
    image_field(m, "ConstMethod", "_constMethod_size", "int", false, 24);
    image_field(m, "nmethod", "_scopes_pcs_offset", "int", false, 268);
    image_field(m, "Abstract_VM_Version", "_vm_major_version", "int", true, IMAGE_BIAS + DATA_VADDR + VERSION_AT);
    image_type(m, "HeapBlock", 16);
    image_type(m, "ConstantPool", 64);
    image_type(m, "ConstMethod", 56);
    image_int(m, "frame::interpreter_frame_sender_sp_offset", -1);
    image_int(m, "frame::interpreter_frame_last_sp_offset", -2);
}

static inline void image_17(struct hotspot_memory *m)
{
    image_common(m);
    image_field(m, "GrowableArrayBase", "_len", "int", false, 0);
    image_field(m, "CodeBlob", "_frame_complete_offset", "int", false, 20);
    image_field(m, "CodeBlob", "_code_begin", "address", false, 32);
    image_field(m, "CompiledMethod", "_method", "Method*", false, 112);
    image_field(m, "ConstantPool", "_source_file_name_index", "u2", false, 60);
    image_field(m, "ConstMethod", "_flags", "u2", false, 28);
    image_field(m, "nmethod", "_dependencies_offset", "int", false, 272);
    image_field(m, "nmethod", "_metadata_offset", "int", false, 260);
    image_field(m, "CompiledMethod", "_scopes_data_begin", "address", false, 120);
    image_int(m, "ConstMethod::_has_linenumber_table", 1);
    image_set(m, VERSION_AT, 17);
}

static inline void image_25(struct hotspot_memory *m)
{
    image_common(m);
    image_field(m, "GrowableArrayBase", "_len", "int", false, 0);
    image_field(m, "CodeBlob", "_frame_complete_offset", "int16_t", false, 20);
    image_field(m, "CodeBlob", "_code_offset", "int", false, 32);
    image_field(m, "CodeBlob", "_kind", "CodeBlobKind", false, 50);
    image_field(m, "nmethod", "_method", "Method*", false, 112);
    image_field(m, "ConstantPool", "_source_file_name_index", "u2", false, 60);
    image_field(m, "ConstMethod", "_flags._flags", "u4", false, 28);
    image_field(m, "nmethod", "_scopes_data_offset", "int", false, 200);
    image_field(m, "nmethod", "_immutable_data", "address", false, 96);
    image_field(m, "CodeBlob", "_mutable_data", "address", false, 16);
    image_field(m, "CodeBlob", "_relocation_size", "int", false, 28);
    image_int(m, "ConstMethodFlags::_misc_has_linenumber_table", 1);
    image_int(m, "CodeBlobKind::Nmethod", 1);
    image_set(m, VERSION_AT, 25);
}
