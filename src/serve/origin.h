/* Which client a connection comes from, to share connections among clients: an IPv4 address, a network of 64 bits in
 * IPv6 (where one machine has that many addresses), or a user at the other end of a Unix socket. All loopback addresses
 * are one client. Different clients have different numbers in practice; equal ones would share a limit. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

/* The client of a connected socket; 0: it is not known, such as when the connection has just ended. */
uint64_t origin_of_socket(int socket);

/* The client with this address of IPv4 or IPv6; 0: any other family. */
uint64_t origin_of_address(const struct sockaddr *address);
