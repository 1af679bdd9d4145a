"""Traces one request and ends the manager at once: `traced_end.py LIBRARY SETTING...`."""
import sys

import traced_library

traced_library.begin(*sys.argv[1:])
traced_library.trace_requests(1)
traced_library.library.sonde_trace_model_free(traced_library.model)
traced_library.library.sonde_trace_manager_free(traced_library.manager)
print("ended")
