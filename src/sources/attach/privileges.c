/* Capabilities that this process lacks; see privileges.h. */
#include "sources/attach/privileges.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/stat.h>

static const struct used_capability {
    cap_value_t value;
    bool with_sys_admin; /* the kernel accepts CAP_SYS_ADMIN in its place */
    struct privilege privilege;
} used[] = {
    {CAP_BPF, true, {"CAP_BPF", "no BPF program or map can be loaded: no samples, no requests"}},
    {CAP_PERFMON,
     true,
     {"CAP_PERFMON",
      "no sampling, no access to kernel memory from BPF, no process lifecycle events: nothing is recorded"}},
    {CAP_SYS_PTRACE,
     false,
     {"CAP_SYS_PTRACE",
      "files, mappings and environment of other users' processes cannot be read: frames without names, truncated stacks"}},
    {CAP_DAC_READ_SEARCH,
     false,
     {"CAP_DAC_READ_SEARCH", "executables that only their owner may read have no symbols and no unwind tables"}},
    {CAP_CHECKPOINT_RESTORE,
     true,
     {"CAP_CHECKPOINT_RESTORE", "executables that were deleted or replaced since they were started have no symbols"}},
    {CAP_SYSLOG, false, {"CAP_SYSLOG", "kernel functions have no names"}},
    /* The last one: nothing fails without it, and the agent gives it up. */
    {CAP_SYS_ADMIN, false, {"CAP_SYS_ADMIN", "other BPF programs have no names"}},
};

static bool is_held(cap_t own, cap_value_t capability)
{
    cap_flag_value_t value = CAP_CLEAR;
    return cap_get_flag(own, capability, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

/* Of the first `count` that are used. */
static size_t list_missing(size_t count, struct privilege ret[PRIVILEGES_MAX])
{
    size_t missing = 0;
    cap_t own = cap_get_proc();
    for (size_t i = 0; own && i < count; i++)
        if (!is_held(own, used[i].value) && !(used[i].with_sys_admin && is_held(own, CAP_SYS_ADMIN)))
            ret[missing++] = used[i].privilege;
    if (own)
        cap_free(own);
    return missing;
}

size_t privileges_missing(struct privilege ret[PRIVILEGES_MAX])
{
    return list_missing(array_size(used), ret);
}

static_assert(array_size(used) == PRIVILEGES_MAX, "privileges_missing may return all of them");

void privileges_explain(void)
{
    struct stat btf;
    if (stat("/sys/kernel/btf/vmlinux", &btf) < 0 || !S_ISREG(btf.st_mode) || btf.st_size == 0)
        log_error(
            "this kernel has no BTF in /sys/kernel/btf/vmlinux: it was built without CONFIG_DEBUG_INFO_BTF, and BPF programs cannot be relocated for it");
    struct privilege missing[PRIVILEGES_MAX];
    char names[256] = "";
    size_t count = list_missing(array_size(used) - 1, missing); /* without the optional one */
    for (size_t i = 0, length = 0; i < count && length < sizeof(names); i++)
        length += snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "", missing[i].name);
    if (count)
        log_error(
            "missing capabilities: %s. Run sonde as root, or grant it these capabilities. These work without them: `sonde why` against a running agent, `sonde doctor`, `sonde record --replay`",
            names);
}
