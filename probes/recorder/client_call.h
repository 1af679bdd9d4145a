/* What a client asks a service for, kept with the send that carries it (RECORDER_SEND): the protocol, and the kind of
 * statement, command or method. No value and no name of anybody's data. */
#pragma once

enum client_protocol {
    CLIENT_NO_PROTOCOL,
    CLIENT_HTTP,
    CLIENT_POSTGRESQL,
    CLIENT_MYSQL,
    CLIENT_REDIS,
    CLIENT_PROTOCOLS,
};

/* Known words, of at most eight letters, the common ones first. Longer ones are cut: "SCRIPT" is no word of its own. */
#define CLIENT_WORDS(X)                                                                                                \
    /* SQL */                                                                                                          \
    X(SELECT)                                                                                                          \
    X(INSERT)                                                                                                          \
    X(UPDATE)                                                                                                          \
    X(DELETE)                                                                                                          \
    X(BEGIN)                                                                                                           \
    X(COMMIT)                                                                                                          \
    X(ROLLBACK)                                                                                                        \
    X(WITH)                                                                                                            \
    X(SET)                                                                                                             \
    X(SHOW)                                                                                                            \
    X(CALL)                                                                                                            \
    X(COPY)                                                                                                            \
    X(MERGE)                                                                                                           \
    X(REPLACE)                                                                                                         \
    X(START)                                                                                                           \
    X(LOCK)                                                                                                            \
    X(TRUNCATE)                                                                                                        \
    X(CREATE)                                                                                                          \
    X(ALTER)                                                                                                           \
    X(DROP)                                                                                                            \
    X(EXPLAIN)                                                                                                         \
    X(FETCH)                                                                                                           \
    X(VACUUM)                                                                                                          \
    X(ANALYZE)                                                                                                         \
    X(REFRESH)                                                                                                         \
    /* HTTP; DELETE is above, and GET below */                                                                         \
    X(POST)                                                                                                            \
    X(PUT)                                                                                                             \
    X(HEAD)                                                                                                            \
    X(PATCH)                                                                                                           \
    X(OPTIONS)                                                                                                         \
    /* Redis */                                                                                                        \
    X(GET)                                                                                                             \
    X(MGET)                                                                                                            \
    X(MSET)                                                                                                            \
    X(SETEX)                                                                                                           \
    X(SETNX)                                                                                                           \
    X(GETSET)                                                                                                          \
    X(DEL)                                                                                                             \
    X(UNLINK)                                                                                                          \
    X(EXISTS)                                                                                                          \
    X(EXPIRE)                                                                                                          \
    X(TTL)                                                                                                             \
    X(INCR)                                                                                                            \
    X(INCRBY)                                                                                                          \
    X(DECR)                                                                                                            \
    X(HGET)                                                                                                            \
    X(HSET)                                                                                                            \
    X(HMGET)                                                                                                           \
    X(HMSET)                                                                                                           \
    X(HGETALL)                                                                                                         \
    X(HDEL)                                                                                                            \
    X(HINCRBY)                                                                                                         \
    X(LPUSH)                                                                                                           \
    X(RPUSH)                                                                                                           \
    X(LPOP)                                                                                                            \
    X(RPOP)                                                                                                            \
    X(BLPOP)                                                                                                           \
    X(BRPOP)                                                                                                           \
    X(LRANGE)                                                                                                          \
    X(SADD)                                                                                                            \
    X(SREM)                                                                                                            \
    X(SMEMBERS)                                                                                                        \
    X(ZADD)                                                                                                            \
    X(ZRANGE)                                                                                                          \
    X(ZREM)                                                                                                            \
    X(XADD)                                                                                                            \
    X(XREAD)                                                                                                           \
    X(EVAL)                                                                                                            \
    X(EVALSHA)                                                                                                         \
    X(MULTI)                                                                                                           \
    X(EXEC)                                                                                                            \
    X(WATCH)                                                                                                           \
    X(PUBLISH)                                                                                                         \
    X(SCAN)                                                                                                            \
    X(KEYS)                                                                                                            \
    X(PING)                                                                                                            \
    X(INFO)                                                                                                            \
    X(WAIT)

enum client_word {
    CLIENT_OTHER,    /* none of the known ones */
    CLIENT_PREPARED, /* a prepared statement, whose text was not seen */
#define CLIENT_WORD_OF(word) CLIENT_##word,
    CLIENT_WORDS(CLIENT_WORD_OF)
#undef CLIENT_WORD_OF
        CLIENT_WORD_COUNT,
};
_Static_assert(CLIENT_WORD_COUNT < 256, "in the low byte of a call");

/* As struct recorder_record keeps it. */
static inline int client_call(enum client_protocol protocol, enum client_word word)
{
    return protocol << 8 | word;
}

static inline int client_call_protocol(int call)
{
    return call >> 8;
}

static inline int client_call_word(int call)
{
    return call & 0xff;
}
