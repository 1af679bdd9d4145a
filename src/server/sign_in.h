/* Signing in to the page of all nodes, where readers need a token: a browser sends the token once, and then a cookie
 * with the id of a session (sessions.h). The cookie is for the JSON API only, which changes nothing.
 *
 *     GET  /login                 {"needs_token":true,"signed_in":false}
 *     POST /login, body: TOKEN    begins a session, and answers as above; 403 with a sentence that says why not
 *     POST /logout                ends it, and answers as above */
#pragma once

#include "serve/access.h"
#include "server/listener.h"
#include "server/sessions.h"

#define LOGIN_PATH  "/login"
#define LOGOUT_PATH "/logout"

struct sign_in {
    struct access *access; /* borrowed, as the following; NULL: no token is needed */
    struct sessions *sessions;
    struct rate_limit *attempts; /* to sign in, by address */
    bool is_encrypted;           /* the address has TLS: browsers send the cookie over TLS only */
};

#define SIGN_IN_RATE 1 /* attempts a second of one address */

/* Whether the request is for this file's paths. */
bool sign_in_has(const char *path);
enum MHD_Result sign_in_answer(const struct sign_in *s, const struct listener_request *request);

/* Whether the request asks the JSON API with the cookie of a session, whose token is still valid. Then its client. */
bool sign_in_is_done(const struct sign_in *s, struct MHD_Connection *connection, const char *method, const char *path,
                     struct access_client *ret_client);
