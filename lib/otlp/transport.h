/* HTTP and gRPC as the senders of OTLP see them, and the agent where it asks the container runtime: bytes go in, an
 * answer comes out. One connection belongs to one thread. The one behind it (curl.c) is linked into the agent, and is a
 * library of its own for libsonde, which so needs nothing but libc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OTLP_TRANSPORT_VERSION  6
#define OTLP_TRANSPORT_SYMBOL   sonde_otlp_transport
#define OTLP_TRANSPORT_WHY_SIZE 256

/* A way to make what is posted smaller that the transport itself does not know. */
struct otlp_encoding {
    const char *name;             /* in headers */
    size_t (*bound)(size_t size); /* what so many bytes may become at most */
    /* Into `to`, which has that much room. -ENOMEM; -EIO. */
    int (*pack)(const void *data, size_t size, void *to, size_t room, size_t *ret_size);
    /* From anybody: -EBADMSG for what is none, or would be more than there is room for. -ENOMEM. */
    int (*unpack)(const void *data, size_t size, void *to, size_t room, size_t *ret_size);
};

struct otlp_transport_options {
    const char *url;
    const char *content_type; /* of HTTP */
    const char *rpc; /* "/package.Service/Method": gRPC, to the host of the URL; NULL: a post of HTTP, to all of it */
    const char *headers;     /* "name=value,...", the value in percent-encoding (OTEL_EXPORTER_OTLP_HEADERS) */
    const char *certificate; /* a file of those that are trusted in https; "": the system's */
    const char *client_certificate, *client_key; /* files of who we are; "": nobody asks */
    const char *user_agent;
    const char *unix_socket;              /* path of one, to which the URL's host is but a name; NULL: none */
    size_t answer_bytes_max;              /* of a body; 0: 64 KiB */
    unsigned gzip_level;                  /* of what is posted, 1 (fastest) to 9; 0: as it is */
    const struct otlp_encoding *encoding; /* in the place of gzip; NULL: none */
    uint32_t timeout_ms;                  /* of one post, from name to answer */
    bool (*is_overdue)(void *argument);   /* asked meanwhile: true ends the post */
    void *argument;
};

enum otlp_verdict {
    OTLP_UNANSWERED,
    OTLP_ACCEPTED,
    OTLP_BUSY,   /* the same packet may fare better later */
    OTLP_REFUSED /* it will not */
};

struct otlp_answer {
    enum otlp_verdict verdict;
    uint32_t retry_after_ms;           /* the receiver asks for that; 0: it asks for nothing */
    char why[OTLP_TRANSPORT_WHY_SIZE]; /* in words, unless it was accepted */
    const char *body; /* the connection's, until its next post; NULL: none, or more than anybody reads */
    size_t body_size;
    size_t sent_bytes; /* of the body of the post, as it went out */
};

struct otlp_transport {
    unsigned version;
    /* -EINVAL with the reason in `why`: not a URL of http or https, or of gRPC one with a path; -ENOMEM. Connects
     * to nothing yet. -ENOPKG, with the reason as well: there is no libcurl. */
    int (*open)(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size);
    /* 0: an answer, whichever; -errno with answer->why: there was none. Redirects are answers. */
    int (*post)(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer);
    void (*close)(void *connection);
};

/* Whether there is more in a URL than who is asked, and a "/" at most. */
static inline bool otlp_url_has_path(const char *url)
{
    const char *host = strstr(url, "://"), *path = strpbrk(host ? host + 3 : url, "/?#");
    return path && strcmp(path, "/") != 0;
}

/* What `open` refuses an URL for, before anything is opened: -EINVAL and why. Of the agent alone, which has curl.c
 * in it. */
int otlp_transport_check_url(const char *url, bool is_grpc, const char **ret_why);
