/* `sonde io report`, a subcommand of `sonde io`. */
#pragma once

/* argv[0] is "report". Returns the exit status (of the command, if one was run), or -errno. */
int io_report_run(int argc, char **argv);
