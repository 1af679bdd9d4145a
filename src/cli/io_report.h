/* `sonde io report`, a subcommand of `sonde io`. */
#pragma once

/* argv[0] is "report". The exit status (that of a command that was run), or -errno. */
int io_report_run(int argc, char **argv);
