/* The version of the tables; see schema.h. */
#include "server/schema.h"

#include "server/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#define TABLE TABLES_DATABASE ".schema_versions"

uint64_t schema_hash(unsigned keep_days)
{
    _cleanup_buf_ struct buf sql = {0};
    for (enum table table = 0; table < TABLE_COUNT; table++) {
        table_put_create(&sql, table);
        table_put_migrate(&sql, table, keep_days);
    }
    return XXH3_64bits(sql.data, sql.size);
}

void schema_put_create(struct buf *sql)
{
    buf_puts(sql, "CREATE TABLE IF NOT EXISTS " TABLE " (`Version` UInt32, `Hash` UInt64, `Program` String, "
                  "`Timestamp` DateTime64(9) DEFAULT now64(9)) ENGINE = MergeTree ORDER BY (Version, Timestamp) "
                  "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1");
}

void schema_put_find(struct buf *sql)
{
    buf_puts(sql, "SELECT Version, Hash, Program FROM " TABLE " ORDER BY Version DESC, Timestamp DESC LIMIT 1");
}

enum schema_state schema_state(const char *found, size_t size, unsigned keep_days, struct buf *why)
{
    char line[128], program[64] = "?";
    unsigned version = 0;
    uint64_t hash = 0;
    snprintf(line, sizeof(line), "%.*s", (int)size, size ? found : "");
    (void)sscanf(line, "%u\t%" SCNu64 "\t%63s", &version, &hash, program);
    if (version <= SCHEMA_VERSION)
        return version == SCHEMA_VERSION && hash == schema_hash(keep_days) ? SCHEMA_IS_CURRENT : SCHEMA_IS_OLD;
    buf_printf(why,
               "the tables have version %u, of sonde %s, and this program, sonde " SONDE_VERSION
               ", knows versions up to %d: use the newer program",
               version, program, SCHEMA_VERSION);
    return SCHEMA_IS_NEWER;
}

void schema_put_record(struct buf *sql, unsigned keep_days)
{
    buf_printf(sql, "INSERT INTO " TABLE " (Version, Hash, Program) VALUES (%d, %" PRIu64 ", '" SONDE_VERSION "')",
               SCHEMA_VERSION, schema_hash(keep_days));
}
