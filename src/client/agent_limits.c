/* See agent_limits.h. */
#include "client/agent_limits.h"

#include "base/log.h"
#include "client/agent_client.h"

void agent_limits_report(const char *address)
{
    struct agent_state state;
    if (agent_client_state(address, &state) < 0)
        return;
    if (state.reduced[0])
        log_warning("the agent keeps to its CPU limit (budget.one_cpu). Reduced: %s. Complete: %s", state.reduced,
                    state.complete[0] ? state.complete : "nothing");
}
