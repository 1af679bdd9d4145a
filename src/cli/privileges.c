/* What rights this process lacks; see privileges.h. */
#include "cli/privileges.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <stdio.h>
#include <sys/capability.h>
#include <sys/stat.h>

static const struct {
    cap_value_t capability;
    const char *name;
} used[] = {
    {CAP_BPF, "CAP_BPF"},                         /* load programs and maps */
    {CAP_PERFMON, "CAP_PERFMON"},                 /* sample, and read kernel memory from BPF */
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},           /* /proc/PID/{root,maps,environ} of others */
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}, /* executables that only their owner may read; cgroup names by id */
    {CAP_SYSLOG, "CAP_SYSLOG"},                   /* kernel addresses in /proc/kallsyms */
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},             /* names of other BPF programs, BPF run time */
};

const char *privileges_missing(char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    cap_t own = cap_get_proc();
    for (size_t i = 0; own && i < array_size(used) && length < size; i++) {
        cap_flag_value_t value = CAP_CLEAR;
        cap_get_flag(own, used[i].capability, CAP_EFFECTIVE, &value);
        if (value == CAP_CLEAR)
            length += snprintf(out + length, size - length, "%s%s", length ? ", " : "", used[i].name);
    }
    if (own)
        cap_free(own);
    return out;
}

void privileges_explain(void)
{
    struct stat btf;
    if (stat("/sys/kernel/btf/vmlinux", &btf) < 0 || !S_ISREG(btf.st_mode) || btf.st_size == 0)
        log_error("this kernel tells nothing of its types (no BTF in /sys/kernel/btf/vmlinux): it was built without CONFIG_DEBUG_INFO_BTF, and no BPF program can be fitted to it");
    char missing[256];
    if (privileges_missing(missing, sizeof(missing))[0])
        log_error("missing capabilities: %s. Run it as root, or give them to it. Without them these still work: `sonde why` against a running agent, `sonde doctor`, `sonde record --replay`", missing);
}
