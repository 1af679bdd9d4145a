/* Messages of a program to the service manager that started it (systemd: Type=notify and WatchdogSec). */
#pragma once

#define SERVICE_READY    "READY=1"
#define SERVICE_ALIVE    "WATCHDOG=1"
#define SERVICE_STOPPING "STOPPING=1"

/* Sends `state` to the socket that the environment variable NOTIFY_SOCKET names. Does nothing if the variable is not
 * set or no process reads the socket. Does not block. Opens one descriptor, which stays open. On one thread, as is the
 * function below. */
void service_notify(const char *state);

/* Says that the configuration is being read again, until the next SERVICE_READY (Type=notify-reload). */
void service_notify_reloading(void);
