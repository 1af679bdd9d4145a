/* See client_calls.h. */
#include "diagnose/flight/client_calls.h"

#include "probes/recorder/client_call.h"

#include <stdbool.h>
#include <stdio.h>

static const struct {
    const char *name, *what; /* the noun for a call of an unknown kind */
} protocols[CLIENT_PROTOCOLS] = {
    [CLIENT_HTTP] = {"HTTP", "request"},
    [CLIENT_POSTGRESQL] = {"PostgreSQL", "statement"},
    [CLIENT_MYSQL] = {"MySQL", "statement"},
    [CLIENT_REDIS] = {"Redis", "command"},
};

#define NAME(word) [CLIENT_##word] = #word,
static const char *const words[CLIENT_WORD_COUNT] = {CLIENT_WORDS(NAME)};
#undef NAME

static bool is_known(int call)
{
    return call >= 0 && client_call_protocol(call) != CLIENT_NO_PROTOCOL &&
           client_call_protocol(call) < CLIENT_PROTOCOLS && client_call_word(call) < CLIENT_WORD_COUNT;
}

const char *client_call_text(int call, char out[CLIENT_CALL_TEXT_BYTES])
{
    const int protocol = client_call_protocol(call), word = client_call_word(call);
    out[0] = '\0';
    if (is_known(call))
        snprintf(out, CLIENT_CALL_TEXT_BYTES, "%s%s %s", word == CLIENT_PREPARED ? "prepared " : "",
                 protocols[protocol].name, words[word] ?: protocols[protocol].what);
    return out;
}

const char *client_call_protocol_name(int call)
{
    return is_known(call) ? protocols[client_call_protocol(call)].name : "";
}

const char *client_call_kind(int call)
{
    if (!is_known(call))
        return "";
    if (client_call_word(call) == CLIENT_PREPARED)
        return "prepared statement";
    return words[client_call_word(call)] ?: "other";
}
