/* Why the page closed a client's connection, apart from errors: a counter each. */
#pragma once

enum connection_end {
    CONNECTION_END_NO_REQUEST,    /* its request was not complete in time */
    CONNECTION_END_SLOW_READER,   /* it did not read its reply in time */
    CONNECTION_END_ADDRESS_LIMIT, /* its address opened another connection, and had as many as one may have */
    CONNECTION_END_LIMIT,         /* all connections were in use, and another client opened one */
    CONNECTION_END_COUNT
};

/* The value of the label `reason`. */
static inline const char *connection_end_name(enum connection_end end)
{
    static const char *const names[CONNECTION_END_COUNT] = {"no_request", "slow_reader", "address_limit", "limit"};
    return names[end];
}
