/* A TCP connection over the loopback interface, for tests. */
#pragma once

/* ends[0]: the client's socket, ends[1]: the one that its server has accepted. Asserts that it is made. */
void connect_pair(int ends[2]);
