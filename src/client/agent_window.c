/* Time windows of a running agent; see agent_window.h. The agent sends the profile as pprof, and the same reader as for
 * files parses it. */
#include "client/agent_window.h"

#include "base/buf.h"
#include "base/file_part.h"
#include "base/log.h"
#include "base/units.h"
#include "client/agent_address.h"
#include "client/agent_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS         UINT64_C(1000000)
#define AGO_MAX_MS UINT64_C(3600000)

static int parse_ago(const char *text, size_t size, uint64_t *ret_ms)
{
    char duration[64];
    uint64_t ns;
    if (size >= sizeof(duration))
        return -EINVAL;
    memcpy(duration, text, size);
    duration[size] = '\0';
    if (units_parse_duration_ns(duration, &ns) < 0 || ns / MS > AGO_MAX_MS)
        return -EINVAL;
    *ret_ms = ns / MS;
    return 0;
}

int agent_window_parse(const char *text, struct agent_window *ret)
{
    const char *dots = strstr(text, "..");
    struct agent_window w = {.text = text};
    if (dots && parse_ago(text, (size_t)(dots - text), &w.from_ms) == 0 &&
        parse_ago(dots + 2, strlen(dots + 2), &w.to_ms) == 0 && w.from_ms > w.to_ms) {
        *ret = w;
        return 0;
    }
    log_error("diff: --window: '%s' is not FROM..TO, such as 60s..30s (from 60 to 30 seconds ago; at most an hour)",
              text);
    return -EINVAL;
}

int agent_window_now(const char *address, uint64_t *ret_now_ms)
{
    struct agent_state state = {0};
    int r = agent_client_state(address, &state);
    if (r == 0 && !state.now_ms)
        r = -EPROTO; /* an older agent without the region API */
    if (r < 0)
        return agent_address_log_failure("diff", address, r);
    *ret_now_ms = state.now_ms;
    return 0;
}

static int read_pprof_body(const struct buf *body, const char *value, struct profile **ret,
                           struct pprof_about *ret_about)
{
    char path[32];
    _cleanup_close_ int fd = memfd_create("profile", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = file_part_write_all(fd, body->data, body->size);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return pprof_file_read(path, value, ret, ret_about);
}

int agent_window_read(const char *address, uint64_t now_ms, const struct agent_window *window,
                      const struct agent_scope *scope, const char *value, struct profile **ret,
                      struct pprof_about *ret_about)
{
    _cleanup_buf_ struct buf body = {0};
    char query[256], filter[128] = "";
    if (scope->pid)
        snprintf(filter, sizeof(filter), "&pid=%u", scope->pid);
    if (scope->container)
        snprintf(filter + strlen(filter), sizeof(filter) - strlen(filter), "&container=%s", scope->container);
    if (scope->time)
        snprintf(filter + strlen(filter), sizeof(filter) - strlen(filter), "&time=%s", scope->time);
    snprintf(query, sizeof(query), "format=pprof&from=%llu&to=%llu%s",
             (unsigned long long)(now_ms > window->from_ms ? now_ms - window->from_ms : 0),
             (unsigned long long)(now_ms > window->to_ms ? now_ms - window->to_ms : 1), filter);
    int r = agent_client_profile(address, query, &body);
    if (r == -EPROTO && body.size) {
        log_error("diff: the agent at %s, of %s: %.*s", address, window->text, (int)strcspn(body.data, "\n"),
                  body.data);
        return r;
    }
    if (r < 0)
        return agent_address_log_failure("diff", address, r);
    r = read_pprof_body(&body, value, ret, ret_about);
    if (r == -ENOENT && ret_about->why[0])
        log_error("diff: the agent's profiles have no values of the type '%s'; %s", value, ret_about->why);
    else if (r < 0)
        log_errno(r, "diff: the profile from the agent at %s cannot be read", address);
    return r;
}
