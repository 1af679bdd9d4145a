/* Parses cgroup paths and environments; see identity.h.
 *
 * A path is read component by component, outermost first. Each runtime marks the component of a container in its own
 * way:
 *
 *   docker      docker/ID (cgroupfs), docker-ID.scope (systemd)
 *   containerd  kubepods/.../podUID/ID, cri-containerd-ID.scope, nerdctl-ID.scope, ...slice:cri-containerd:ID
 *   CRI-O       crio-ID, crio-ID.scope
 *   Podman      libpod-ID, libpod-ID.scope, libpod-payload-ID
 *
 * Their monitors (crio-conmon-ID, libpod-conmon-ID) are outside of the container. An ID is 64 hexadecimal digits. A
 * nested container comes later in the path and replaces the outer one; the pod, the job and the node's unit around
 * it stay. */
#include "resolve/proc/identity.h"

#include "base/hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_ID_DIGITS 64

struct piece {
    const char *text;
    size_t size;
};

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_digits(struct piece p)
{
    size_t n = 0;
    while (n < p.size && is_hex(p.text[n]))
        n++;
    return n;
}

static bool is_container_id(struct piece p)
{
    return p.size == CONTAINER_ID_DIGITS && hex_digits(p) == CONTAINER_ID_DIGITS;
}

static bool starts_with(struct piece p, const char *prefix)
{
    size_t n = strlen(prefix);
    return p.size >= n && memcmp(p.text, prefix, n) == 0;
}

static bool ends_with(struct piece p, const char *suffix)
{
    size_t n = strlen(suffix);
    return p.size >= n && memcmp(p.text + p.size - n, suffix, n) == 0;
}

static bool equals(struct piece p, const char *text)
{
    return p.size == strlen(text) && memcmp(p.text, text, p.size) == 0;
}

static struct piece without_prefix(struct piece p, size_t n)
{
    return (struct piece){p.text + n, p.size - n};
}

static bool contains(struct piece p, const char *text)
{
    for (; p.size >= strlen(text); p = without_prefix(p, 1))
        if (starts_with(p, text))
            return true;
    return false;
}

/* The container ID in a component, and the runtime that its prefix names. */
static bool parse_container(struct piece p, struct piece before, struct piece *ret_id, const char **ret_runtime)
{
    static const struct {
        const char *mark, *runtime;
    } marks[] = {
        {"docker-", "docker"},      {"cri-containerd-", "containerd"},
        {"nerdctl-", "containerd"}, {"containerd-", "containerd"},
        {"crio-", "cri-o"},         {"libpod-payload-", "podman"},
        {"libpod-", "podman"},
    };
    if (ends_with(p, ".scope"))
        p.size -= strlen(".scope");
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (!starts_with(p, marks[i].mark))
            continue;
        *ret_id = without_prefix(p, strlen(marks[i].mark));
        *ret_runtime = marks[i].runtime;
        return is_container_id(*ret_id);
    }
    /* "SLICE:cri-containerd:ID": a systemd-style name given to a runtime with the cgroupfs driver. */
    const char *colon = memrchr(p.text, ':', p.size);
    if (colon) {
        *ret_id = without_prefix(p, (size_t)(colon - p.text) + 1);
        *ret_runtime = contains(p, ":cri-containerd:") ? "containerd"
                       : contains(p, ":crio:")         ? "cri-o"
                       : contains(p, ":docker:")       ? "docker"
                                                       : "";
        return is_container_id(*ret_id);
    }
    *ret_id = p;
    *ret_runtime = equals(before, "docker")                                      ? "docker"
                   : equals(before, "libpod_parent") || equals(before, "libpod") ? "podman"
                   : equals(before, "default") || equals(before, "k8s.io")       ? "containerd"
                                                                                 : "";
    return is_container_id(p);
}

/* "pod0b4c...", "kubepods-besteffort-pod0b4c_....slice": the UID after "pod", which is 36 characters, or the 32
 * digits of a static pod's checksum. */
static bool parse_pod(struct piece p, char ret[40])
{
    const char *colon = memchr(p.text, ':', p.size);
    if (colon)
        p.size = (size_t)(colon - p.text);
    if (ends_with(p, ".slice"))
        p.size -= strlen(".slice");
    const char *found = NULL;
    for (size_t i = 0; i + 3 <= p.size; i++)
        if (memcmp(p.text + i, "pod", 3) == 0 && (i == 0 || p.text[i - 1] == '-'))
            found = p.text + i + 3;
    if (!found)
        return false;
    size_t size = (size_t)(p.text + p.size - found);
    if (size != 36 && size != 32)
        return false;
    char uid[40] = "";
    for (size_t i = 0; i < size; i++) {
        uid[i] = found[i] == '_' ? '-' : found[i];
        const bool dash = size == 36 && (i == 8 || i == 13 || i == 18 || i == 23);
        if (dash ? uid[i] != '-' : !is_hex(uid[i]))
            return false;
    }
    memcpy(ret, uid, sizeof(uid));
    return true;
}

static void parse_job(struct piece p, char ret[24])
{
    struct piece number = without_prefix(p, strlen("job_"));
    if (number.size == 0 || number.size > 20)
        return;
    for (size_t i = 0; i < number.size; i++)
        if (number.text[i] < '0' || number.text[i] > '9')
            return;
    memcpy(ret, number.text, number.size);
    ret[number.size] = '\0';
}

/* The unit's name, unescaped; "" when it is too long. systemd writes bytes that a unit name may not hold as \xNN,
 * and prepends "_" to names that clash with the kernel's own files. */
static void parse_unit(struct piece p, char *ret, size_t size)
{
    size_t n = 0;
    if (p.size > 1 && p.text[0] == '_')
        p = without_prefix(p, 1);
    for (size_t i = 0; i < p.size; i++) {
        char c = p.text[i];
        if (i + 3 < p.size && c == '\\' && p.text[i + 1] == 'x' && hex_value(p.text[i + 2]) >= 0 &&
            hex_value(p.text[i + 3]) >= 0) {
            c = (char)(hex_value(p.text[i + 2]) * 16 + hex_value(p.text[i + 3]));
            i += 3;
        }
        if (c == '\0' || n + 1 >= size) {
            n = 0;
            break;
        }
        ret[n++] = c;
    }
    ret[n] = '\0';
}

static bool is_unit(struct piece p)
{
    return (ends_with(p, ".service") || ends_with(p, ".scope") || ends_with(p, ".socket") || ends_with(p, ".mount") ||
            ends_with(p, ".swap")) &&
           !contains(p, ":");
}

void identity_from_cgroup(const char *path, struct identity *ret)
{
    struct identity i = {.container_runtime = ""};
    struct piece before = {"", 0};
    bool in_pods = false, in_slurm = false;

    for (const char *at = path; *at;) {
        struct piece p = {at, strcspn(at, "/")};
        at += p.size + (at[p.size] == '/');
        if (p.size == 0 || equals(p, ".."))
            continue;
        struct piece id;
        const char *runtime;
        in_pods |= contains(p, "kubepods");
        in_slurm |= contains(p, "slurm");
        if (in_pods)
            parse_pod(p, i.kubernetes_pod_uid);
        if (in_slurm && starts_with(p, "job_"))
            parse_job(p, i.slurm_job_id);
        if (parse_container(p, before, &id, &runtime)) {
            memcpy(i.container_id, id.text, id.size);
            i.container_runtime = runtime;
            i.systemd_unit[0] = '\0'; /* it is the runtime's unit, not the container's */
        } else if (is_unit(p)) {
            parse_unit(p, i.systemd_unit, sizeof(i.systemd_unit));
        }
        before = p;
    }
    *ret = i;
}

unsigned identity_weight(const struct identity *i)
{
    return (i->container_id[0] ? 8u : 0) + (i->kubernetes_pod_uid[0] ? 4u : 0) + (i->slurm_job_id[0] ? 2u : 0) +
           (i->systemd_unit[0] ? 1u : 0);
}

bool identity_service_of_unit(const char *unit, char *ret, size_t size)
{
    const size_t n = strlen(unit), suffix = strlen(".service");
    if (n <= suffix || strcmp(unit + n - suffix, ".service") != 0 || strncmp(unit, "user@", 5) == 0)
        return false;
    snprintf(ret, size, "%.*s", (int)(n - suffix), unit);
    return true;
}

/* Percent-decodes into `ret`; false when the encoding is broken or the result is too long or empty. */
static bool decode_value(struct piece p, char ret[IDENTITY_SERVICE_BYTES])
{
    size_t n = 0;
    while (p.size && (p.text[0] == ' ' || p.text[0] == '\t'))
        p = without_prefix(p, 1);
    while (p.size && (p.text[p.size - 1] == ' ' || p.text[p.size - 1] == '\t'))
        p.size--;
    for (size_t i = 0; i < p.size; i++) {
        char c = p.text[i];
        if (c == '%') {
            if (p.size - i < 3 || hex_value(p.text[i + 1]) < 0 || hex_value(p.text[i + 2]) < 0)
                return false;
            c = (char)(hex_value(p.text[i + 1]) * 16 + hex_value(p.text[i + 2]));
            i += 2;
        }
        if (c == '\0' || n + 1 >= IDENTITY_SERVICE_BYTES)
            return false;
        ret[n++] = c;
    }
    ret[n] = '\0';
    return true;
}

/* "key=value,key=value". One error invalidates all attributes, as OpenTelemetry's specification requires. */
static void read_attributes(struct piece p, struct identity_service *ret)
{
    struct identity_service s = {0};
    while (p.size) {
        const char *comma = memchr(p.text, ',', p.size);
        struct piece pair = {p.text, comma ? (size_t)(comma - p.text) : p.size};
        p = without_prefix(p, pair.size + (comma ? 1 : 0));
        const char *equal = memchr(pair.text, '=', pair.size);
        char key[IDENTITY_SERVICE_BYTES], value[IDENTITY_SERVICE_BYTES];
        if (!equal && pair.size == 0)
            continue; /* a trailing comma */
        if (!equal || !decode_value((struct piece){pair.text, (size_t)(equal - pair.text)}, key))
            return;
        char *to = strcmp(key, "service.name") == 0        ? s.name
                   : strcmp(key, "service.namespace") == 0 ? s.namespace
                   : strcmp(key, "service.version") == 0   ? s.version
                                                           : NULL;
        if (!to)
            continue; /* not used, and possibly longer than the buffer */
        if (!decode_value(without_prefix(pair, (size_t)(equal - pair.text) + 1), value))
            return;
        memcpy(to, value, sizeof(value));
    }
    *ret = s;
}

/* Finds a variable; the first one counts, as in getenv(). */
static void find_variable(const char *environment, size_t size, const char *name, struct piece *ret)
{
    const size_t n = strlen(name);
    struct piece left = {environment, size};
    while (left.size) {
        const char *nul = memchr(left.text, '\0', left.size);
        struct piece variable = {left.text, nul ? (size_t)(nul - left.text) : left.size};
        left = without_prefix(left, variable.size + (nul ? 1 : 0));
        if (starts_with(variable, name) && variable.size > n && variable.text[n] == '=') {
            *ret = without_prefix(variable, n + 1);
            return;
        }
    }
}

void identity_from_environ(const char *environment, size_t size, struct identity_service *ret)
{
    struct identity_service s = {0};
    struct piece attributes = {"", 0}, name = {"", 0};
    find_variable(environment, size, "OTEL_RESOURCE_ATTRIBUTES", &attributes);
    find_variable(environment, size, "OTEL_SERVICE_NAME", &name);
    read_attributes(attributes, &s);
    if (name.size > 0 && name.size < sizeof(s.name)) {
        memcpy(s.name, name.text, name.size);
        s.name[name.size] = '\0';
    }
    *ret = s;
}
