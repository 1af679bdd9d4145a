/* See agent_limits.h. */
#include "cli/agent_limits.h"

#include "base/log.h"
#include "base/units.h"
#include "cli/agent_client.h"

#include <string.h>

void agent_limits_report(const char *address, uint64_t last_ns)
{
    struct agent_state state;
    char uptime[32];
    if (agent_client_state(address, &state) < 0)
        return;
    if (strcmp(state.detail, "full") != 0)
        log_warning("the agent keeps to its CPU limit (budget.one_cpu) with: %s. Complete: %s", state.reduced,
                    state.complete);
    if (state.uptime_ns < last_ns)
        log_info("the agent has been running for %s only",
                 units_format_duration(state.uptime_ns, uptime, sizeof(uptime)));
}
