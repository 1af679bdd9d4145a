/* Waiting in a subcommand that runs until its time is over, or until SIGINT or SIGTERM. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Blocks both signals, so that only end_signals_wait, or a signalfd, receives them. 0 or -errno. */
int end_signals_block(sigset_t *ret);

/* Waits for `wait_ns`. True: one of them came before that. */
bool end_signals_wait(const sigset_t *signals, uint64_t wait_ns);
