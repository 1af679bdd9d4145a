/* The debuginfod client; see debuginfod.h.
 *
 * Each server in turn is asked for URL/buildid/BUILD-ID/debuginfo, with one libcurl handle, so that connections are
 * reused. Servers are not trusted: the number of redirects is limited, a redirect from https to http is refused, and
 * bytes are counted as they arrive. */
#include "resolve/symbols/debuginfod.h"

#include "base/clock.h"
#include "resolve/elf/debug_files.h"
#include "resolve/symbols/debuginfod_cache.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SERVERS_MAX      16
#define URL_BYTES        1024
#define FILE_MAX_BYTES   ((uint64_t)1 << 30)
#define ALL_MAX_BYTES    ((uint64_t)4 << 30)
#define STALL_SECONDS    30
#define FILE_MAX_SECONDS 120
#define ALL_MAX_SECONDS  300
#define STALL_BYTES      (100 * 1024L) /* the same as in elfutils */
#define REDIRECTS_MAX    5L
#define TICK_MS          200
#define WHITE_SPACE      " \t\n"

struct server {
    char url[URL_BYTES];
    char shown[URL_BYTES];     /* without user and password */
    char why[CURL_ERROR_SIZE]; /* "": it has not failed */
};

struct debuginfod {
    struct debuginfod_options options;
    struct server servers[SERVERS_MAX];
    size_t server_count;
    int cache;
    CURL *curl;
    CURLM *multi;
    struct curl_slist *headers;
    uint64_t bytes, spent_ns; /* of all transfers */
    struct debuginfod_stats stats;
};

struct transfer {
    struct debuginfod *d;
    const struct server *server;
    int fd;
    uint64_t bytes;
    int error;
};

/* ---- environment ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return otherwise;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    return errno || *end || value == 0 ? otherwise
                                       : value; /* 0 means unlimited in elfutils; here there is always a limit */
}

static unsigned seconds_of(const char *name, unsigned otherwise)
{
    const uint64_t value = number_of(name, otherwise);
    return value < ALL_MAX_SECONDS ? (unsigned)value : ALL_MAX_SECONDS;
}

int debuginfod_options_from_environment(struct debuginfod_options *ret)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !urls[strspn(urls, WHITE_SPACE)])
        return -ENOENT;
    *ret = (struct debuginfod_options){
        .urls = urls,
        .file_max_bytes = number_of("DEBUGINFOD_MAXSIZE", FILE_MAX_BYTES),
        .all_max_bytes = ALL_MAX_BYTES,
        .stall_seconds = seconds_of("DEBUGINFOD_TIMEOUT", STALL_SECONDS),
        .file_max_seconds = seconds_of("DEBUGINFOD_MAXTIME", FILE_MAX_SECONDS),
        .all_max_seconds = ALL_MAX_SECONDS,
        .stop_fd = -1,
    };
    return 0;
}

/* ---- servers ---- */

static void mark_failed(struct server *s, const char *why)
{
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static bool is_http(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

static void add_server(struct debuginfod *d, const char *url, size_t size, bool wants_signatures)
{
    if (d->server_count == SERVERS_MAX)
        return;
    struct server *s = &d->servers[d->server_count++];
    char whole[URL_BYTES];
    const bool fits =
        snprintf(whole, sizeof(whole), "%.*s", (int)(size < URL_BYTES ? size : URL_BYTES), url) < URL_BYTES;
    char *host = strstr(whole, "://");
    host = host ? host + strlen("://") : whole;
    for (char *end = host + strlen(host); end > host && end[-1] == '/';)
        *--end = '\0';
    const char *at = memrchr(host, '@', strcspn(host, "/"));
    snprintf(s->url, sizeof(s->url), "%s", whole);
    snprintf(s->shown, sizeof(s->shown), "%.*s%s", (int)(host - whole), whole, at ? at + 1 : host);
    if (!fits || !is_http(whole))
        mark_failed(s, "not a URL of http or https");
    else if (wants_signatures)
        mark_failed(s, "requires signed files (ima:enforcing), which is not supported");
}

static void add_servers(struct debuginfod *d)
{
    bool wants_signatures = false;
    for (const char *url = d->options.urls;;) {
        url += strspn(url, WHITE_SPACE);
        const size_t size = strcspn(url, WHITE_SPACE);
        if (!size)
            return;
        if (strncmp(url, "ima:", 4) == 0) /* applies to all servers after it */
            wants_signatures = size == strlen("ima:enforcing") && strncmp(url, "ima:enforcing", size) == 0;
        else
            add_server(d, url, size, wants_signatures);
        url += size;
    }
}

const char *debuginfod_failure(const struct debuginfod *d, size_t number, const char **ret_why)
{
    for (size_t i = 0; i < d->server_count; i++) {
        if (!d->servers[i].why[0] || number-- > 0)
            continue;
        *ret_why = d->servers[i].why;
        return d->servers[i].shown;
    }
    return NULL;
}

void debuginfod_stats(const struct debuginfod *d, struct debuginfod_stats *ret)
{
    *ret = d->stats;
}

/* ---- transfer ---- */

static size_t write_received(char *data, size_t size, size_t count, void *argument)
{
    struct transfer *t = argument;
    const size_t wanted = size * count;
    t->bytes += wanted;
    t->d->bytes += wanted;
    if (t->bytes > t->d->options.file_max_bytes)
        t->error = -EFBIG;
    else if (t->d->bytes > t->d->options.all_max_bytes)
        t->error = -EDQUOT;
    for (size_t done = 0; done < wanted && t->error == 0;) {
        const ssize_t n = write(t->fd, data + done, wanted - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            t->error = n == 0 ? -EIO : -errno;
    }
    return t->error == 0 ? wanted : 0;
}

static curl_socket_t open_socket(void *argument, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)argument, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void set_options(struct debuginfod *d)
{
    const struct debuginfod_options *o = &d->options;
    curl_easy_setopt(d->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(d->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(d->curl, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
    curl_easy_setopt(d->curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(d->curl, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(d->curl, CURLOPT_QUICK_EXIT, 1L); /* do not wait for a resolver thread that does not answer */
#endif
    curl_easy_setopt(d->curl, CURLOPT_CONNECTTIMEOUT, (long)o->stall_seconds);
    curl_easy_setopt(d->curl, CURLOPT_LOW_SPEED_TIME, (long)o->stall_seconds);
    curl_easy_setopt(d->curl, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES / (long)o->stall_seconds + 1);
    curl_easy_setopt(d->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)o->file_max_bytes);
    curl_easy_setopt(d->curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    curl_easy_setopt(d->curl, CURLOPT_HTTPHEADER, d->headers);
    curl_easy_setopt(d->curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(d->curl, CURLOPT_WRITEFUNCTION, write_received);
}

static void report_progress(const struct transfer *t, uint64_t *reported_ns)
{
    const struct debuginfod_options *o = &t->d->options;
    const uint64_t now_ns = clock_monotonic_ns();
    if (!o->progress || now_ns - *reported_ns < TICK_MS * 1000000ull)
        return;
    *reported_ns = now_ns;
    o->progress(o->context, t->server->shown, t->bytes);
}

/* Returns 0 with the result of the transfer, or -ECANCELED. */
static int perform_transfer(struct transfer *t, CURLcode *ret)
{
    struct debuginfod *d = t->d;
    uint64_t reported_ns = 0;
    int running = 1, r = curl_multi_add_handle(d->multi, d->curl) == CURLM_OK ? 0 : -ENOMEM;
    *ret = CURLE_OUT_OF_MEMORY;
    while (r == 0 && curl_multi_perform(d->multi, &running) == CURLM_OK && running) {
        struct curl_waitfd stop = {.fd = d->options.stop_fd, .events = CURL_WAIT_POLLIN};
        report_progress(t, &reported_ns);
        if (curl_multi_poll(d->multi, &stop, d->options.stop_fd >= 0, TICK_MS, NULL) != CURLM_OK || stop.revents)
            r = -ECANCELED;
    }
    int left;
    for (const CURLMsg *message; (message = curl_multi_info_read(d->multi, &left)) != NULL;)
        *ret = message->data.result;
    curl_multi_remove_handle(d->multi, d->curl);
    return r;
}

static bool is_of_build(int fd, const char *build_id)
{
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    _cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0 || elf_open(copy, &file) < 0)
        return false;
    take_fd(&copy);
    return debug_files_has_build_id(file, build_id) == 1;
}

/* The outcome of a transfer: 0: received; -ENOENT: the server does not have it; -EFBIG, -EDQUOT: past a limit;
 * -ECANCELED; -EPROTO: the server has failed; any other error is local. */
static int result_of(const struct transfer *t, CURLcode code, const char *build_id, char *why)
{
    long status = 0;
    curl_easy_getinfo(t->d->curl, CURLINFO_RESPONSE_CODE, &status);
    if (t->error < 0)
        return t->error;
    if (code == CURLE_HTTP_RETURNED_ERROR && (status == 404 || status == 406))
        return status == 404 ? -ENOENT : -EFBIG;
    if (code == CURLE_FILESIZE_EXCEEDED)
        return -EFBIG;
    if (code != CURLE_OK) {
        if (!why[0])
            snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
        return -EPROTO;
    }
    if (status == 200 && is_of_build(t->fd, build_id))
        return 0;
    snprintf(why, CURL_ERROR_SIZE, "the response is not an ELF file with the requested build ID");
    return -EPROTO;
}

static int fetch_from(struct debuginfod *d, struct server *s, const char *build_id, int fd)
{
    struct transfer t = {.d = d, .server = s, .fd = fd};
    const uint64_t start_ns = clock_monotonic_ns(), all_ns = d->options.all_max_seconds * 1000000000ull,
                   left_ns = d->spent_ns < all_ns ? all_ns - d->spent_ns : 0;
    uint64_t most_ms = d->options.file_max_seconds * 1000ull;
    char url[2 * URL_BYTES], why[CURL_ERROR_SIZE] = "";
    CURLcode code;
    if (left_ns < 1000000)
        return -EDQUOT;
    most_ms = left_ns / 1000000 < most_ms ? left_ns / 1000000 : most_ms;
    snprintf(url, sizeof(url), "%s/buildid/%s/debuginfo", s->url, build_id);
    curl_easy_setopt(d->curl, CURLOPT_URL, url);
    curl_easy_setopt(d->curl, CURLOPT_REDIR_PROTOCOLS_STR, strncasecmp(url, "https:", 6) == 0 ? "https" : "http,https");
    curl_easy_setopt(d->curl, CURLOPT_TIMEOUT_MS, (long)most_ms);
    curl_easy_setopt(d->curl, CURLOPT_WRITEDATA, &t);
    curl_easy_setopt(d->curl, CURLOPT_ERRORBUFFER, why);
    int r = perform_transfer(&t, &code);
    if (r == 0)
        r = result_of(&t, code, build_id, why);
    curl_easy_setopt(d->curl, CURLOPT_ERRORBUFFER, NULL);
    d->spent_ns += clock_monotonic_ns() - start_ns;
    if (r == -EPROTO)
        mark_failed(s, why);
    return r;
}

/* From the first server that has it. Absence is recorded only when all servers have answered that they do not have
 * it. */
static int fetch(struct debuginfod *d, const char *build_id)
{
    struct debuginfod_cache_entry entry;
    size_t absent_count = 0;
    int r = debuginfod_cache_begin(d->cache, build_id, &entry);
    if (r < 0)
        return r;
    r = -EHOSTUNREACH;
    for (size_t i = 0; i < d->server_count; i++) {
        struct server *s = &d->servers[i];
        if (s->why[0])
            continue;
        if (ftruncate(entry.fd, 0) < 0 || lseek(entry.fd, 0, SEEK_SET) < 0)
            r = -errno;
        else
            r = fetch_from(d, s, build_id, entry.fd);
        absent_count += r == -ENOENT;
        if (r != -ENOENT && r != -EPROTO && r != -EFBIG)
            break;
    }
    if (r == 0 || (absent_count == d->server_count && ftruncate(entry.fd, 0) == 0))
        return debuginfod_cache_keep(&entry) < 0 ? -EIO : r;
    debuginfod_cache_drop(&entry);
    return r;
}

static bool is_build_id(const char *text)
{
    const size_t size = strlen(text);
    return size >= 4 && size <= 128 && size % 2 == 0 && strspn(text, "0123456789abcdef") == size;
}

static void count_outcome(struct debuginfod *d, int r)
{
    struct debuginfod_stats *f = &d->stats;
    f->fetched += r == 0;
    f->absent += r == -ENOENT;
    f->too_large += r == -EFBIG;
    f->unasked += r < 0 && r != -ENOENT && r != -EFBIG;
}

int debuginfod_find(struct debuginfod *d, const char *build_id)
{
    if (!is_build_id(build_id))
        return -EINVAL;
    _cleanup_close_ int fd = debuginfod_cache_find(d->cache, build_id);
    if (fd == -ENODATA) {
        d->stats.absent++;
        return -ENOENT;
    }
    if (fd >= 0 && is_of_build(fd, build_id)) {
        d->stats.cached++;
        return take_fd(&fd);
    }
    const int r = fetch(d, build_id);
    count_outcome(d, r);
    if (r < 0)
        return r == -ECANCELED ? r : -ENOENT;
    return debuginfod_cache_find(d->cache, build_id);
}

/* ---- lifecycle ---- */

void debuginfod_free(struct debuginfod *d)
{
    if (!d)
        return;
    curl_multi_cleanup(d->multi);
    curl_easy_cleanup(d->curl);
    curl_slist_free_all(d->headers);
    closep(&d->cache);
    free(d);
}

int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret)
{
    _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
    char header[64];
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOPKG;
    if (!(d = calloc(1, sizeof(*d))))
        return -ENOMEM;
    d->options = *options;
    d->cache = debuginfod_cache_open(options->cache_path);
    if (d->cache < 0)
        return d->cache;
    snprintf(header, sizeof(header), "X-DEBUGINFOD-MAXSIZE: %llu", (unsigned long long)options->file_max_bytes);
    d->headers = curl_slist_append(NULL, header);
    d->curl = curl_easy_init();
    d->multi = curl_multi_init();
    if (!d->headers || !d->curl || !d->multi)
        return -ENOMEM;
    set_options(d);
    add_servers(d);
    *ret = take_ptr(d);
    return 0;
}
