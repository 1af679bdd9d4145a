/* Browsers that have signed in with a token. A browser gets the random id of a session, and not the token, to keep. The
 * table has the ids as hashes, and does not outlive the server. Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

#define SESSIONS_MAX     1024 /* beyond it, the session that was not used for the longest time ends */
#define SESSION_IDLE_H   12   /* a session that is not used ends after so many hours */
#define SESSION_ID_BYTES 41   /* 160 random bits in hexadecimal digits */

struct sessions;

/* `now_ns` is a clock. 0 or -ENOMEM. */
int sessions_new(uint64_t (*now_ns)(void), struct sessions **ret);
void sessions_free(struct sessions *s);
DEFINE_FREEP(sessions)

/* Begins a session for the token with this hash. 0 with its id, or -errno. */
int sessions_begin(struct sessions *s, const unsigned char token[SHA256_BYTES], char ret_id[SESSION_ID_BYTES]);
/* Whether a session has this id, which is untrusted text. Then its token's hash; the caller checks that the token is
 * still valid. The session counts as used now. */
bool sessions_find(struct sessions *s, const char *id, unsigned char ret_token[SHA256_BYTES]);
/* Ends the session, if there is one. */
void sessions_end(struct sessions *s, const char *id);
