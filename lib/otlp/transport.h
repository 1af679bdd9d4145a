/* The transport interface of OTLP senders, and of the agent's queries to the container runtime: bytes in, response
 * out. A connection is used by one thread. The implementation (curl.c) is linked into the agent, and is a separate
 * library for libsonde, so that libsonde itself depends only on libc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OTLP_TRANSPORT_VERSION  6
#define OTLP_TRANSPORT_SYMBOL   sonde_otlp_transport
#define OTLP_TRANSPORT_WHY_SIZE 256

/* A compression that the transport itself does not implement. */
struct otlp_encoding {
    const char *name;             /* as in headers */
    size_t (*bound)(size_t size); /* upper bound of the encoded size */
    /* Encodes into `to`, which has `room` bytes. -ENOMEM; -EIO. */
    int (*pack)(const void *data, size_t size, void *to, size_t room, size_t *ret_size);
    /* Decodes untrusted data. -EBADMSG: invalid, or larger than `room`. -ENOMEM. */
    int (*unpack)(const void *data, size_t size, void *to, size_t room, size_t *ret_size);
};

struct otlp_transport_options {
    const char *url;
    const char *content_type; /* HTTP only */
    const char *rpc; /* "/package.Service/Method": a gRPC call to the host of the URL; NULL: an HTTP POST to the URL */
    const char *headers;     /* "name=value,...", values percent-encoded (OTEL_EXPORTER_OTLP_HEADERS) */
    const char *certificate; /* file of trusted CA certificates; "": the system's */
    const char *client_certificate, *client_key; /* files of the client certificate and its key; "": none */
    const char *user_agent;
    const char *unix_socket;              /* path of a UNIX socket to connect to instead of the URL's host; NULL:
                                           * none */
    size_t answer_bytes_max;              /* limit of a response body; 0: 64 KiB */
    unsigned gzip_level;                  /* of request bodies, 1 (fastest) to 9; 0: uncompressed */
    const struct otlp_encoding *encoding; /* instead of gzip; NULL: none */
    uint32_t timeout_ms;                  /* of one POST, including name resolution and response */
    bool (*is_overdue)(void *argument);   /* polled during a POST: true cancels it */
    void *argument;
};

enum otlp_verdict {
    OTLP_UNANSWERED,
    OTLP_ACCEPTED,
    OTLP_BUSY,   /* a retry may succeed */
    OTLP_REFUSED /* a retry will fail */
};

struct otlp_answer {
    enum otlp_verdict verdict;
    uint32_t retry_after_ms;           /* delay requested by the receiver; 0: none */
    char why[OTLP_TRANSPORT_WHY_SIZE]; /* reason, unless accepted */
    const char *body; /* owned by the connection, valid until its next POST; NULL: none, or above the limit */
    size_t body_size;
    size_t sent_bytes; /* size of the request body as sent */
};

struct otlp_transport {
    unsigned version;
    /* Creates a connection without connecting. -EINVAL with the reason in `why`: not an HTTP or HTTPS URL, or a gRPC
     * URL with a path; -ENOMEM. -ENOPKG, also with the reason: libcurl is not available. */
    int (*open)(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size);
    /* 0: any response, including redirects; -errno with answer->why: no response. */
    int (*post)(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer);
    void (*close)(void *connection);
};

/* Whether a URL has more than scheme and authority, apart from a single "/". */
static inline bool otlp_url_has_path(const char *url)
{
    const char *host = strstr(url, "://"), *path = strpbrk(host ? host + 3 : url, "/?#");
    return path && strcmp(path, "/") != 0;
}

/* Checks a URL like `open`: -EINVAL and the reason. Only in the agent, which links curl.c. */
int otlp_transport_check_url(const char *url, bool is_grpc, const char **ret_why);
