/* See path_asked.h. */
#include "diagnose/path/path_asked.h"

#include "diagnose/flight/client_calls.h"

const char *path_asked_text(const struct path_segment *s, const struct path_names *names, char out[PATH_ASKED_BYTES])
{
    const uint64_t socket = s->call ?: s->kind == REQUEST_PART_DOWNSTREAM ? s->socket : 0;
    _Static_assert(PATH_ASKED_BYTES >= CLIENT_CALL_TEXT_BYTES, "room for both");
    client_call_text(s->asks, out);
    if (!out[0] && socket && names->asked)
        names->asked(names->context, socket, s->start_ns, s->end_ns, out);
    return out;
}
