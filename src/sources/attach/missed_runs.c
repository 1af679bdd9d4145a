/* Sums recursion_misses over all programs of an object; see missed_runs.h. */
#include "sources/attach/missed_runs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/bpf.h>

uint64_t missed_runs_of(const struct bpf_program *program)
{
    struct bpf_prog_info info = {0};
    uint32_t size = sizeof(info);
    const int fd = bpf_program__fd(program);
    return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 ? info.recursion_misses : 0;
}

uint64_t missed_runs(struct bpf_object *object)
{
    struct bpf_program *program;
    uint64_t sum = 0;
    bpf_object__for_each_program(program, object)
    {
        sum += missed_runs_of(program);
    }
    return sum;
}
