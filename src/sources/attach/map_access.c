/* See map_access.h. */
#include "sources/attach/map_access.h"

#include "base/cleanup.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

void map_sum_counters(int map_fd, void *ret_sum, size_t bytes)
{
    const int cpus = libbpf_num_possible_cpus();
    _cleanup_free_ __u64 *values = cpus > 0 ? calloc((size_t)cpus, bytes) : NULL;
    const size_t count = bytes / sizeof(__u64);
    const uint32_t zero = 0;
    __u64 *sum = ret_sum;

    assert(bytes % sizeof(__u64) == 0);
    if (!values || bpf_map_lookup_elem(map_fd, &zero, values) < 0)
        return;
    memset(sum, 0, bytes);
    for (int cpu = 0; cpu < cpus; cpu++)
        for (size_t i = 0; i < count; i++)
            sum[i] += values[(size_t)cpu * count + i];
}

/* Before Linux 5.14 in two steps. */
bool map_take_element(int map_fd, const void *key, void *ret_value)
{
    if (bpf_map_lookup_and_delete_elem(map_fd, key, ret_value) == 0)
        return true;
    return bpf_map_lookup_elem(map_fd, key, ret_value) == 0 && bpf_map_delete_elem(map_fd, key) == 0;
}

void map_clear(int map_fd)
{
    uint32_t key;

    while (bpf_map_get_next_key(map_fd, NULL, &key) == 0 && bpf_map_delete_elem(map_fd, &key) == 0)
        ;
}
