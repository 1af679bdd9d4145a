/* See link_trial.h. The site imitates libsonde's objects: code in a memory file, mapped executable, with a semaphore
 * in the same file that the kernel increments. */
#include "sources/link/link_trial.h"

#include "base/cleanup.h"
#include "sources/attach/uprobe_link.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/link.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MFD_EXEC /* since Linux 6.3 */
#define MFD_EXEC 16U
#endif

#if defined(__x86_64__)
static const uint8_t code[] = {0x90, 0xc3}; /* nop; ret */
#elif defined(__aarch64__)
static const uint32_t code[] = {0xd503201f, 0xd65f03c0};
#endif

struct trial_site {
    int fd;
    size_t page_bytes;
    void (*call)(uint64_t, uint64_t, uint64_t);
    const volatile uint16_t *semaphore;
};

static int create_code_file(size_t page_bytes)
{
    _cleanup_close_ int fd = memfd_create("sonde-trial", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0) /* before 6.3 */
        fd = memfd_create("sonde-trial", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)(2 * page_bytes)) < 0 || pwrite(fd, code, sizeof(code), 0) != sizeof(code))
        return -EIO;
    return take_fd(&fd);
}

static int create_trial_site(struct trial_site *p)
{
    p->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    p->fd = create_code_file(p->page_bytes);
    if (p->fd < 0)
        return p->fd;
    void *text = mmap(NULL, p->page_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, p->fd, 0);
    void *data = mmap(NULL, p->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, p->fd, (off_t)p->page_bytes);
    if (text == MAP_FAILED || data == MAP_FAILED)
        return -errno;
    memcpy(&p->call, &text, sizeof(text));
    p->semaphore = data;
    return 0;
}

static uint64_t count_firings(int stats_fd)
{
    const uint32_t zero = 0;
    const int cpus = libbpf_num_possible_cpus();
    _cleanup_free_ struct link_stats *stats = cpus > 0 ? calloc((size_t)cpus, sizeof(*stats)) : NULL;
    uint64_t sum = 0;
    if (!stats || bpf_map_lookup_elem(stats_fd, &zero, stats) < 0)
        return 0;
    for (int i = 0; i < cpus; i++)
        sum += stats[i].firings;
    return sum;
}

static int attach_and_call(struct bpf_program *program, int stats_fd, const struct trial_site *p)
{
    const struct uprobe_place place = {.fd = p->fd, .semaphore_offset = p->page_bytes, .pid = -1};
    struct uprobe_link *link;
    const int r = uprobe_link_new(program, &place, &link);
    if (r < 0)
        return r;
    const uint64_t before = count_firings(stats_fd);
    const bool is_counted = *p->semaphore == 1;
    p->call(0, 0, 0); /* no trace */
    const bool has_fired = count_firings(stats_fd) > before;
    uprobe_link_free(link);
    return is_counted && has_fired ? 0 : -ENOSYS;
}

int link_trial(struct bpf_program *program, int stats_fd)
{
    struct trial_site p = {.fd = -1};
    int r = create_trial_site(&p);
    if (r == 0)
        r = attach_and_call(program, stats_fd, &p);
    if (p.call)
        munmap((void *)(uintptr_t)p.call, p.page_bytes); /* NOLINT: returned by mmap */
    if (p.semaphore)
        munmap((void *)(uintptr_t)p.semaphore, p.page_bytes); /* NOLINT: likewise */
    closep(&p.fd);
    return r;
}
