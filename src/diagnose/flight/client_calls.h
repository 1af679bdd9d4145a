/* Text for the calls of clients (probes/recorder/client_call.h). */
#pragma once

#define CLIENT_CALL_TEXT_BYTES 40

/* Writes "PostgreSQL SELECT", "prepared PostgreSQL statement" or, if the kind is not known, "PostgreSQL statement"; ""
 * for a call that is not known. Returns `out`. */
const char *client_call_text(int call, char out[CLIENT_CALL_TEXT_BYTES]);

/* "PostgreSQL"; "": the call is not known. */
const char *client_call_protocol_name(int call);
/* "SELECT", "prepared statement" or, if the kind is not known, "other"; "": the call is not known. */
const char *client_call_kind(int call);
