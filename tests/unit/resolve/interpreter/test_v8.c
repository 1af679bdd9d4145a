/* V8 frames: names in every string encoding, functions without a name or that could not be read, the layout that V8
 * publishes in its file, and files with another layout. */
#include "resolve/interpreter/interpreter.h"

#include "base/cleanup.h"
#include "resolve/elf/elf.h"
#include "resolve/interpreter/v8_layout.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PID 4711

static const struct interpreter *const v8 = &interpreter_v8;

static void closep_v8(void **v)
{
    v8->free(*v);
}

/* ---- functions ---- */

static struct v8_code make_code(uint64_t code, const void *file, uint32_t file_length, unsigned file_width,
                                const void *name, uint32_t name_length, unsigned name_width)
{
    struct v8_code c = {
        .h = {.size_bytes = sizeof(c), .kind = RECORD_V8_CODE, .pid = PID}, .code = code, .check = 3, .line = 12};
    c.file = (struct v8_text){file_length, file_width};
    c.name = (struct v8_text){name_length, name_width};
    memcpy(c.file_data, file, file_length * file_width);
    memcpy(c.name_data, name, name_length * name_width);
    return c;
}

static int find_code(void *v, uint64_t code, struct interpreted_name *ret)
{
    const struct interpreter_entry entry = {.code = code, .instruction = 1, .check = 3};
    return v8->find(v, PID, &entry, ret);
}

static void expect(void *v, const struct v8_code *c, const char *function, const char *file, uint32_t line)
{
    struct interpreted_name name;
    assert_true(v8_code_is_sound(c));
    assert_int_equal(v8->take(v, &c->h), 0);
    assert_int_equal(find_code(v, c->code, &name), 0);
    assert_string_equal(name.function, function);
    assert_string_equal(name.file, file);
    assert_int_equal(name.line, line);
    assert_true(name.is_first_line);
}

static void test_strings_become_utf8(void **state)
{
    (void)state;
    _cleanup_(closep_v8) void *v = NULL;
    const uint16_t snake[] = {'a', 0xd83d, 0xdc0d, 0x433}, broken[] = {0xd83d, 'b', 0xdc0d};
    assert_int_equal(v8->open(1 << 20, &v), 0);
    struct v8_code c = make_code(0x1001, "/srv/app.js", 11, 1,
                                 "gr\xf6\xdf"
                                 "e\n",
                                 6, 1);
    expect(v, &c,
           "gr\xc3\xb6\xc3\x9f"
           "e?",
           "/srv/app.js", 12); /* the name stays on one line of output */
    c = make_code(0x1001, snake, 4, 2, snake, 4, 2);
    expect(v, &c, "a\xf0\x9f\x90\x8d\xd0\xb3", "a\xf0\x9f\x90\x8d\xd0\xb3", 12);
    c = make_code(0x1001, "", 0, 1, broken, 3, 2);
    expect(v, &c,
           "\xef\xbf\xbd"
           "b\xef\xbf\xbd",
           "", 0); /* an empty script has no lines */
    c = make_code(0x1001, "/x.js", 5, 1, "", 0, 1);
    expect(v, &c, "(anonymous:12)", "/x.js", 12);
    c.name = (struct v8_text){V8_NAME_BYTES, 1};
    memset(c.name_data, 'f', sizeof(c.name_data));
    c.file = (struct v8_text){V8_FILE_BYTES / 2, 2}; /* the longest UTF-8: three bytes per character */
    memset(c.file_data, 0x80, sizeof(c.file_data));
    struct interpreted_name name;
    assert_int_equal(v8->take(v, &c.h), 0);
    assert_int_equal(find_code(v, c.code, &name), 0);
    assert_int_equal(strlen(name.function), V8_NAME_BYTES);
    assert_int_equal(strlen(name.file), V8_FILE_BYTES / 2 * 3);
}

static void test_unreadable_function_has_no_name(void **state)
{
    (void)state;
    _cleanup_(closep_v8) void *v = NULL;
    struct interpreted_name name;
    struct missing_code missing[4];
    assert_int_equal(v8->open(1 << 20, &v), 0);
    struct v8_code c = make_code(0x1001, "/x.js", 5, 1, "", 0, 0);
    assert_int_equal(v8->take(v, &c.h), 0);
    assert_int_equal(find_code(v, c.code, &name), -ENOENT);
    assert_int_equal(v8->missing(v, missing, 4), 0); /* it was emitted: requesting it again would not help */
    assert_int_equal(find_code(v, 0x2001, &name), -ENOENT);
    assert_int_equal(v8->missing(v, missing, 4), 1);
    assert_true(missing[0].code == 0x2001 && missing[0].pid == PID && missing[0].check == 3);
    const struct interpreter_entry unread = {.code = 0x3001, .check = 0};
    assert_int_equal(v8->find(v, PID, &unread, &name), -ENOENT);
    assert_int_equal(v8->missing(v, missing, 4), 0);
}

static void test_invalid_records_are_refused(void **state)
{
    (void)state;
    _cleanup_(closep_v8) void *v = NULL;
    assert_int_equal(v8->open(1 << 20, &v), 0);
    struct v8_code c = make_code(0x1001, "", 0, 1, "f", 1, 1);
    c.h.size_bytes -= 8;
    assert_int_equal(v8->take(v, &c.h), -EBADMSG);
    c.h.size_bytes += 8;
    c.name.width = 3;
    assert_int_equal(v8->take(v, &c.h), -EBADMSG);
    c.name = (struct v8_text){V8_NAME_BYTES / 2 + 1, 2};
    assert_int_equal(v8->take(v, &c.h), -EBADMSG);
    c.name = (struct v8_text){1, 1};
    c.file = (struct v8_text){UINT32_MAX, 1};
    assert_int_equal(v8->take(v, &c.h), -EBADMSG);
}

static void test_native_functions_of_v8_frames(void **state)
{
    (void)state;
    assert_true(v8->is_evaluator("Builtins_InterpreterEntryTrampoline"));
    assert_false(v8->is_evaluator("Builtins_InterpreterEntryTrampolineForProfiling"));
    assert_true(v8->is_part("Builtins_LdaNamedPropertyHandler"));
    assert_true(v8->is_part("Builtins_AddWideHandler"));
    assert_false(v8->is_part("Builtins_ArrayMap"));
    assert_false(v8->is_part("Builtins_Handler"));
    assert_false(v8->is_part("SignalHandler"));
    assert_false(v8->is_part(""));
}

/* ---- files ---- */

/* A shared object that publishes `values`: symbol names and their contents, consecutive in its data; zeros take no
 * space in the file. */
struct value {
    const char *name;
    int32_t value;
};

static const struct value node_20[] = {{"v8dbg_FirstContextType", 208},
                                       {"v8dbg_LastContextType", 217},
                                       {"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 262},
                                       {"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", 261},
                                       {"v8dbg_type_Script__SCRIPT_TYPE", 167},
                                       {"v8dbg_IsNotStringMask", -128},
                                       {"v8dbg_off_fp_function", -16},
                                       {"v8dbg_off_fp_context", -8},
                                       {"v8dbg_off_fp_context_or_frame_type", -8},
                                       {"v8dbg_class_Map__instance_type__uint16_t", 12},
                                       {"v8dbg_class_JSFunction__shared__SharedFunctionInfo", 24},
                                       {"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", 16},
                                       {"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", 32},
                                       {"v8dbg_scopeinfo_idx_ncontextlocals", 2},
                                       {"v8dbg_scopeinfo_idx_first_vars", 3},
                                       {"v8dbg_class_Script__name__Object", 16},
                                       {"v8dbg_class_Script__line_ends__Object", 56},
                                       {"v8dbg_class_String__length__int32_t", 12},
                                       {"v8dbg_class_SeqOneByteString__chars__char", 16},
                                       {"v8dbg_class_SeqTwoByteString__chars__char", 16},
                                       {"v8dbg_class_ConsString__first__String", 16},
                                       {"v8dbg_class_ConsString__second__String", 24},
                                       {"v8dbg_class_SlicedString__parent__String", 16},
                                       {"v8dbg_class_SlicedString__offset__SMI", 24},
                                       {"v8dbg_class_ThinString__actual__String", 16},
                                       {"v8dbg_class_ExternalString__resource__Object", 16},
                                       {"v8dbg_TaggedSize", 8},
                                       {"v8dbg_StringRepresentationMask", 7},
                                       {"v8dbg_OneByteStringTag", 8},
                                       {"_ZN2v88internal7Version6major_E", 11}};
#define VALUES (sizeof(node_20) / sizeof(node_20[0]))

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[4];
    Elf64_Sym symbols[VALUES + 1];
    char section_names[32], names[4096];
    int32_t data[VALUES];
};

static int read_image(const struct value *values, size_t count, unsigned machine, struct v8_layout *ret)
{
    struct image *image = calloc(1, sizeof(*image));
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    size_t used = 1;
    assert_non_null(image);
    image->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                 .e_type = ET_DYN,
                                 .e_machine = (Elf64_Half)machine,
                                 .e_version = EV_CURRENT,
                                 .e_phoff = offsetof(struct image, segment),
                                 .e_shoff = offsetof(struct image, sections),
                                 .e_ehsize = sizeof(Elf64_Ehdr),
                                 .e_phentsize = sizeof(Elf64_Phdr),
                                 .e_phnum = 1,
                                 .e_shentsize = sizeof(Elf64_Shdr),
                                 .e_shnum = 4,
                                 .e_shstrndx = 3};
    image->segment =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = sizeof(*image), .p_memsz = sizeof(*image) + 4096};
    memcpy(image->section_names, "\0.dynsym\0.dynstr\0.shstrtab", 27);
    image->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                      .sh_type = SHT_DYNSYM,
                                      .sh_link = 2,
                                      .sh_offset = offsetof(struct image, symbols),
                                      .sh_size = (count + 1) * sizeof(Elf64_Sym),
                                      .sh_entsize = sizeof(Elf64_Sym)};
    image->sections[2] = (Elf64_Shdr){.sh_name = 9,
                                      .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct image, names),
                                      .sh_size = sizeof(image->names)};
    image->sections[3] = (Elf64_Shdr){.sh_name = 17,
                                      .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct image, section_names),
                                      .sh_size = sizeof(image->section_names)};
    for (size_t i = 0; i < count; i++) {
        image->symbols[i + 1] =
            (Elf64_Sym){.st_name = (Elf64_Word)used,
                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                        .st_shndx = 1,
                        .st_value = values[i].value ? offsetof(struct image, data) + i * 4 : sizeof(*image) + 4 * i};
        used += (size_t)snprintf(image->names + used, sizeof(image->names) - used, "%s", values[i].name) + 1;
        image->data[i] = values[i].value;
    }
    assert_int_equal(elf_open_memory(image, sizeof(*image), &elf), 0);
    return v8_layout_read(elf, ret);
}

static int read_with(const char *name, int32_t value)
{
    struct value values[VALUES];
    struct v8_layout layout;
    memcpy(values, node_20, sizeof(values));
    for (size_t i = 0; i < VALUES; i++)
        if (strcmp(values[i].name, name) == 0)
            values[i].value = value;
    return read_image(values, VALUES, EM_X86_64, &layout);
}

static void test_layout_published_by_node(void **state)
{
    (void)state;
    struct v8_layout layout;
    assert_int_equal(read_image(node_20, VALUES, EM_X86_64, &layout), 0);
    assert_int_equal(layout.context_first, 208);
    assert_int_equal(layout.context_last, 217);
    assert_int_equal(layout.frame_function, -16);
    assert_int_equal(layout.function_shared, 24);
    assert_int_equal(layout.shared_script, 32);
    assert_int_equal(layout.script_id, 64);
    assert_int_equal(layout.scope_variables, 32);
    assert_int_equal(layout.external_data, 24);
    assert_int_equal(layout.flags, 0);
    assert_true(v8_layout_is_likely("/usr/bin/node") && v8_layout_is_likely("libnode.so.108") &&
                !v8_layout_is_likely("/usr/bin/deno"));
}

static void test_unsupported_layouts_are_refused(void **state)
{
    (void)state;
    struct v8_layout layout;
    const struct value other[] = {{"main", 1}};
    assert_int_equal(read_image(other, 1, EM_X86_64, &layout), -ENOENT);
    assert_int_equal(read_image(node_20, VALUES - 1, EM_X86_64, &layout), -ENOTSUP); /* one is missing */
    assert_int_equal(read_image(node_20, VALUES, EM_AARCH64, &layout), -ENOTSUP);
    assert_int_equal(read_with("_ZN2v88internal7Version6major_E", 9), -ENOTSUP);
    assert_int_equal(read_with("_ZN2v88internal7Version6major_E", 13), -ENOTSUP); /* the version with positions first */
    assert_int_equal(read_with("_ZN2v88internal7Version6major_E", 14), -ENOTSUP);
    assert_int_equal(read_with("_ZN2v88internal7Version6major_E", 12), 0);
    assert_int_equal(read_with("v8dbg_TaggedSize", 4), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_TaggedSize", 0), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_off_fp_function", 16), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_class_JSFunction__shared__SharedFunctionInfo", -1), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_class_JSFunction__shared__SharedFunctionInfo", 1 << 16), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_LastContextType", 3), -ENOTSUP);
    assert_int_equal(read_with("v8dbg_IsNotStringMask", INT32_MIN), -ENOTSUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_become_utf8),         cmocka_unit_test(test_unreadable_function_has_no_name),
        cmocka_unit_test(test_invalid_records_are_refused), cmocka_unit_test(test_native_functions_of_v8_frames),
        cmocka_unit_test(test_layout_published_by_node),    cmocka_unit_test(test_unsupported_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
