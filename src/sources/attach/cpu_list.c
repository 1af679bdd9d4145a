/* Parses the kernel's list of online CPUs. perf_events.c reads it about once a second. */
#include "sources/attach/cpu_list.h"

#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>

static int parse_number(const char **text, unsigned *ret)
{
    const char *at = *text;
    unsigned value = 0;

    if (*at < '0' || *at > '9')
        return -EINVAL;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (unsigned)(*at - '0');
        if (value >= CPU_LIST_MAX)
            return -ERANGE;
    }
    *text = at;
    *ret = value;
    return 0;
}

int cpu_list_parse(const char *text, struct cpu_list *ret)
{
    struct cpu_list list = {0};

    while (*text && *text != '\n') {
        unsigned first, last;
        int r = parse_number(&text, &first);

        if (r < 0)
            return r;
        last = first;
        if (*text == '-') {
            text++;
            r = parse_number(&text, &last);
            if (r < 0)
                return r;
        }
        if (last < first)
            return -EINVAL;
        for (unsigned cpu = first; cpu <= last; cpu++)
            list.bits[cpu / 64] |= 1ULL << (cpu % 64);
        if (*text == ',')
            text++;
        else if (*text && *text != '\n')
            return -EINVAL;
    }
    *ret = list;
    return 0;
}

int cpu_list_online(struct cpu_list *ret)
{
    _cleanup_buf_ struct buf text = {0};
    int r = buf_read_file(&text, "/sys/devices/system/cpu/online", 65536);

    if (r < 0)
        return r;
    return cpu_list_parse(text.data ? text.data : "", ret);
}
