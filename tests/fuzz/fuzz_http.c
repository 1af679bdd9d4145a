/* The parts of a request that Sonde parses instead of libmicrohttpd: the Host header, the lists in Accept-Encoding,
 * the parameters. The first line of the input is a header; the rest are parameters, key=value&key=value. */
#include "base/host_name.h"
#include "serve/host.h"
#include "serve/http.h"
#include "serve/query.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_header(const char *header)
{
    const struct host_policy policies[] = {
        {.port = 7070, .loopback_only = true, .node_name = "node", .allowed = "a.example, b:1"},
        {.port = 80, .node_name = header, .allowed = header},
    };
    struct host_name host;
    bool parsed = host_name_parse(header, &host) == 0;
    if (host_allowed(&policies[0], header) && !parsed)
        abort();
    if (parsed && strlen(host.name) >= sizeof(host.name))
        abort();
    host_allowed(&policies[1], header);
    http_header_names(header, "gzip");
}

static void try_parameters(const char *text, size_t size)
{
    struct query q;
    char why[64];
    query_init(&q, (1U << QUERY_KEY_COUNT) - 1);
    while (size > 0) {
        const char *end = memchr(text, '&', size);
        size_t length = end ? (size_t)(end - text) : size;
        const char *equals = memchr(text, '=', length);
        size_t key = equals ? (size_t)(equals - text) : length;
        why[0] = '\0';
        int r = query_set(&q, text, key, equals ? equals + 1 : NULL, equals ? length - key - 1 : 0, why,
                          sizeof(why));
        if ((r < 0) != (why[0] != '\0') || strlen(why) >= sizeof(why))
            abort();
        text += length + (end ? 1 : 0);
        size -= length + (end ? 1 : 0);
    }
    why[0] = '\0';
    const int fits = query_check(&q, 0, why, sizeof(why));
    if ((fits < 0) != (why[0] != '\0') || strlen(why) >= sizeof(why) ||
        (fits == 0 && query_has(&q, QUERY_FROM) && (q.region.from_ms >= q.region.to_ms || q.region.to_ms > UINT64_MAX / 2000000)))
        abort();
    if (q.seconds < 1 || q.seconds > 3600 || q.max < 1 || q.max > 1000 || strlen(q.container) > 64)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t header_size = end ? (size_t)(end - data) : size;
    char *header = malloc(header_size + 1);
    if (!header)
        return 0;
    memcpy(header, data, header_size);
    header[header_size] = '\0';
    try_header(header);
    free(header);
    if (end)
        try_parameters((const char *)end + 1, size - header_size - 1);
    return 0;
}
