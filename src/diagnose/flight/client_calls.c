/* See client_calls.h. */
#include "diagnose/flight/client_calls.h"

#include "probes/recorder/client_call.h"

#include <stdio.h>

static const struct {
    const char *name, *what; /* what it asks for */
} protocols[CLIENT_PROTOCOLS] = {
    [CLIENT_HTTP] = {"HTTP", "request"},
    [CLIENT_POSTGRESQL] = {"PostgreSQL", "statement"},
    [CLIENT_MYSQL] = {"MySQL", "statement"},
    [CLIENT_REDIS] = {"Redis", "command"},
};

#define NAME(word) [CLIENT_##word] = #word,
static const char *const words[CLIENT_WORD_COUNT] = {CLIENT_WORDS(NAME)};
#undef NAME

const char *client_call_text(int call, char out[CLIENT_CALL_TEXT_BYTES])
{
    const int protocol = call < 0 ? CLIENT_NO_PROTOCOL : client_call_protocol(call), word = client_call_word(call);
    out[0] = '\0';
    if (protocol == CLIENT_NO_PROTOCOL || protocol >= CLIENT_PROTOCOLS || word >= CLIENT_WORD_COUNT)
        return out;
    snprintf(out, CLIENT_CALL_TEXT_BYTES, "%s%s %s", word == CLIENT_PREPARED ? "prepared " : "",
             protocols[protocol].name, words[word] ?: protocols[protocol].what);
    return out;
}
