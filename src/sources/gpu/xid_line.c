/* See xid_line.h. The driver writes
 *
 *     NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ...
 *     NVRM: Xid (PCI:0000:3b:00 GPU-I:01): 13, pid='<unknown>', name=<unknown>, ...
 *     NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
 *
 * All but the code and the address may be missing. A name of a program can start a line of the kernel, "COMM[4711]:
 * segfault at ...", and a further name can follow in it. A name has 15 bytes, which is too short for "NVRM: Xid (" and
 * an address, so the address is what proves that the driver wrote the line. */
#include "sources/gpu/xid_line.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACILITY_SHIFT    3
#define LINE_MAX_BYTES    1024
#define HEX_DIGITS        "0123456789abcdefABCDEF"
#define DOMAIN_DIGITS     4
#define DOMAIN_DIGITS_MAX 8

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

/* Returns the length of the bus address that `text` starts with, "0000:3b:00" or "0000:3b:00.0". 0: there is none. */
static size_t address_length(const char *text)
{
    const size_t domain = strspn(text, HEX_DIGITS);
    const char *at = text + domain;
    if (domain < DOMAIN_DIGITS || domain > DOMAIN_DIGITS_MAX)
        return 0;
    for (unsigned i = 0; i < 2; i++, at += 3)
        if (*at != ':' || strspn(at + 1, HEX_DIGITS) != 2)
            return 0;
    if (*at == '.' && strspn(at + 1, HEX_DIGITS) == 1)
        at += 2;
    return (size_t)(at - text);
}

/* Skips " GPU-I:01", an instance of MIG, if it is there. */
static const char *skip_instance(const char *text, const char *prefix)
{
    const char *number = skip(text, prefix);
    const size_t digits = number ? strspn(number, HEX_DIGITS) : 0;
    return digits ? number + digits : text;
}

/* "(PCI:0000:3b:00 GPU-I:01 GPU-CI:00): ": copies the address. Returns the text behind; NULL: it is another text. */
static const char *parse_device(const char *text, struct gpu_xid *ret)
{
    const char *at = skip(text, "(PCI:") ?: skip(text, "("); /* older drivers write the address alone */
    const size_t length = at ? address_length(at) : 0;
    if (!length)
        return NULL;
    snprintf(ret->pci, sizeof(ret->pci), "%.*s", (int)length, at);
    at = skip_instance(at + length, " GPU-I:");
    return skip(skip_instance(at, " GPU-CI:"), "): ");
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
    at = skip(at, "NVRM: Xid ");
    at = at ? parse_device(at, ret) : NULL;
    if (!at)
        return false;
    ret->code = (__u32)strtoul(at, &code_end, 10);
    if (code_end == at)
        return false;
    at = parse_process(code_end + strspn(code_end, ", "), ret);
    snprintf(ret->text, sizeof(ret->text), "%s", at);
    return true;
}
