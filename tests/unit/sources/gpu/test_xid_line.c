/* Lines of the kernel log that report an Xid. */
#include "sources/gpu/xid_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool parse(const char *line, struct gpu_xid *ret)
{
    return xid_line_parse(line, strlen(line), ret);
}

static void expect(const char *line, unsigned code, const char *pci, unsigned pid, const char *process,
                   const char *text)
{
    struct gpu_xid xid;
    assert_true(parse(line, &xid));
    assert_int_equal(xid.code, code);
    assert_string_equal(xid.pci, pci);
    assert_int_equal(xid.h.pid, pid);
    assert_string_equal(xid.process, process);
    assert_string_equal(xid.text, text);
}

static void test_all_forms_of_the_driver_are_read(void **state)
{
    (void)state;
    expect("4,1201,99000123,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU "
           "Fault: ENGINE GRAPHICS GPC3\n SUBSYSTEM=pci\n",
           31, "0000:3b:00", 4711, "python3", "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC3");
    expect("4,1,2,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:00): 13, pid=7, name=train, Graphics Exception", 13,
           "0000:3b:00", 7, "train", "Graphics Exception");
    expect("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 79, "0000:3b:00", 0, "",
           "GPU has fallen off the bus.");
    expect("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 62, pid='<unknown>', name=<unknown>, 2027(2d08)", 62, "0000:3b:00", 0,
           "", "2027(2d08)");
    expect("4,1,2,-;NVRM: Xid (0000:3b:00): 45, pid=9", 45, "0000:3b:00", 9, "", "");
    expect("4,1,2,-;NVRM: Xid (PCI:00000001:3B:00.0 GPU-I:13): 45, pid=9", 45, "00000001:3B:00.0", 9, "", "");
}

/* Every user can write a line that looks like one of the driver's: it then has another facility. */
static void test_lines_of_programs_do_not_count(void **state)
{
    struct gpu_xid xid;
    (void)state;
    assert_false(parse("12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", &xid));
    assert_false(parse("30,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", &xid));
    assert_false(parse("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", &xid));
}

/* The kernel logs the crash of a program with facility 0, and starts the line with a name that the program chose. */
static void test_names_of_crashed_programs_do_not_count(void **state)
{
    static const char *const lines[] = {
        "6,1,2,-;NVRM: Xid (PCI:[4711]: segfault at 0 ip 0000000000401136 sp 00007ffd0 error 4 in ): 79, GPU has "
        "fallen off the bus.[401000+1000] likely on CPU 3 (core 3, socket 0)",
        "6,1,2,-;NVRM: Xid (0000[4711]: segfault at 0 ip 0000000000401136 in ): 79, GPU has fallen off the bus.",
        "6,1,2,-;NVRM: Xid (PCI:0000:3b:00[4711]: segfault at 0 ip 0 in ): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:0000:3b:00 [4711]: segfault at 0 ip 0 in ): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:[4711]: segfault at 0 ip 0 in ): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:000:3b:00): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:000000000:3b:00): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:0000:3b:001): 79, x",
        "6,1,2,-;NVRM: Xid (PCI:0000:3b): 79, x",
    };
    struct gpu_xid xid;
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_false(parse(lines[i], &xid));
}

static void test_other_and_damaged_lines_are_ignored(void **state)
{
    static const char *const lines[] = {
        "",
        ";",
        "4,1,2,-;",
        "4,1,2,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00)",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): ",
        "4,1,2,-;NVRM: Xid (): 13, x",
        "4,1,2,-;usb: NVRM: Xid (PCI:0000:3b:00): 13, x",
        "-1,1,2,-;NVRM: Xid (PCI:0000:3b:00): 13, x",
    };
    struct gpu_xid xid;
    char longest[4096];
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_false(parse(lines[i], &xid));
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 13, ", 40);
    assert_true(xid_line_parse(longest, sizeof(longest), &xid));
    assert_int_equal(strlen(xid.text), sizeof(xid.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms_of_the_driver_are_read),
        cmocka_unit_test(test_lines_of_programs_do_not_count),
        cmocka_unit_test(test_names_of_crashed_programs_do_not_count),
        cmocka_unit_test(test_other_and_damaged_lines_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
