/* See xid_line.h. The driver writes
 *
 *     NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ...
 *     NVRM: Xid (PCI:0000:3b:00 GPU-I:01): 13, pid='<unknown>', name=<unknown>, ...
 *     NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
 *
 * All but the code and the address may be missing. */
#include "sources/gpu/xid_line.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACILITY_SHIFT 3
#define LINE_MAX_BYTES 1024

/* Copies up to one of `ends`, and moves `*at` there. */
static void copy_until(const char **at, const char *ends, char *out, size_t size)
{
    const size_t length = strcspn(*at, ends);
    snprintf(out, size, "%.*s", (int)length, *at);
    *at += length;
}

static bool parse_prefix(const char *line, const char **ret_text, uint64_t *ret_time_ns)
{
    unsigned priority;
    unsigned long long sequence, time_us;
    *ret_text = strchr(line, ';');
    if (!*ret_text || sscanf(line, "%u,%llu,%llu", &priority, &sequence, &time_us) != 3 || priority >> FACILITY_SHIFT)
        return false;
    ++*ret_text;
    *ret_time_ns = time_us * 1000;
    return true;
}

static const char *skip(const char *text, const char *prefix)
{
    const size_t size = strlen(prefix);
    return text && strncmp(text, prefix, size) == 0 ? text + size : NULL;
}

/* "pid=4711, name=python3, ": the process, as far as the driver knows it. Returns the text behind. */
static const char *parse_process(const char *text, struct gpu_xid *ret)
{
    const char *at = skip(text, "pid=");
    if (!at)
        return text;
    ret->h.pid = ret->h.tid = (__u32)strtoul(at, NULL, 10); /* '<unknown>': 0 */
    at = strstr(at, ", ");
    const char *name = at ? skip(at + 2, "name=") : NULL;
    if (name) {
        copy_until(&name, ",", ret->process, sizeof(ret->process));
        if (ret->process[0] == '<')
            ret->process[0] = '\0';
        at = *name ? name : NULL;
    }
    return at ? at + strspn(at, ", ") : "";
}

bool xid_line_parse(const char *line, size_t size, struct gpu_xid *ret)
{
    char text[LINE_MAX_BYTES], *code_end;
    const char *at;
    snprintf(text, sizeof(text), "%.*s", (int)strnlen(line, size), line);
    text[strcspn(text, "\n")] = '\0'; /* further lines are for machines: " SUBSYSTEM=pci" */
    *ret = (struct gpu_xid){.h = {.size_bytes = sizeof(*ret), .kind = RECORD_GPU_XID}};
    uint64_t time_ns;
    if (!parse_prefix(text, &at, &time_ns))
        return false;
    ret->h.time_ns = time_ns;
    at = skip(at, "NVRM: Xid (");
    if (!at)
        return false;
    at = skip(at, "PCI:") ?: at; /* older drivers write the address alone */
    copy_until(&at, " )", ret->pci, sizeof(ret->pci));
    at = strstr(at, "): ");
    if (!at || !ret->pci[0])
        return false;
    ret->code = (__u32)strtoul(at + 3, &code_end, 10);
    if (code_end == at + 3)
        return false;
    at = parse_process(code_end + strspn(code_end, ", "), ret);
    snprintf(ret->text, sizeof(ret->text), "%s", at);
    return true;
}
