/* What both parts of `sonde probes` say of processes that they could not inspect; see probes.h. */
#include "cli/probes/probes.h"

#include "base/log.h"

#include <inttypes.h>

void probes_warn_losses(const struct usdt_losses *l)
{
    if (l->refused)
        log_warning("probes: %" PRIu64 " processes were skipped: CAP_SYS_PTRACE is missing", l->refused);
    if (l->unreadable)
        log_warning("probes: %" PRIu64 " files or processes could not be read", l->unreadable);
    if (l->damaged_notes)
        log_warning("probes: %" PRIu64 " malformed probe notes were ignored", l->damaged_notes);
    if (l->left_out)
        log_warning("probes: %" PRIu64 " probes or mappings were left out: table full", l->left_out);
}
