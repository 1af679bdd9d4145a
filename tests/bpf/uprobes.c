/* See uprobes.h. */
#include "uprobes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <link.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

/* For the test program: the file offset of an address. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *context)
{
    uint64_t *address = context;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t at = *address - info->dlpi_addr;

        if (p->p_type == PT_LOAD && at >= p->p_vaddr && at < p->p_vaddr + p->p_filesz) {
            *address = at - p->p_vaddr + p->p_offset;
            return 1;
        }
    }
    return -1; /* the first entry is the program itself */
}

uint64_t uprobes_file_offset(const void *address)
{
    uint64_t at = (uint64_t)address;

    assert_int_equal(dl_iterate_phdr(find_offset, &at), 1);
    return at;
}

static unsigned read_number(const char *path, const char *format)
{
    unsigned number;
    FILE *file = fopen(path, "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, format, &number), 1);
    fclose(file);
    return number;
}

int uprobes_attach(const void *code, bool is_return)
{
    const unsigned bit = read_number("/sys/bus/event_source/devices/uprobe/format/retprobe", "config:%u");
    struct perf_event_attr attributes = {
        .size = sizeof(attributes),
        .type = read_number("/sys/bus/event_source/devices/uprobe/type", "%u"),
        .config = (uint64_t)is_return << bit,
        .uprobe_path = (uintptr_t) "/proc/self/exe",
        .probe_offset = uprobes_file_offset(code),
    };
    const int fd = (int)syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}
